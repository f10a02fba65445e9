"""PPO's losses and their derivatives: by hand, and beside what autograd says."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hpcpod.agents.distributions import Categorical, Gaussian, MultiCategorical
from hpcpod.agents.ppo_loss import clipped_objective, normalized, value_error

HEADS = [Categorical(4), MultiCategorical((2, 3, 4)), Gaussian((3,), math.log(0.6))]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("ratio", "gain", "loss", "slope"),
    [
        (20.0, 1.0, -1.2, 0.0),  # far enough already
        (20.0, -1.0, 20.0, 20.0),  # the wrong way: as steep as r
        (0.1, -1.0, 0.8, 0.0),
        (0.1, 1.0, -0.1, -0.1),
        (1.1, 2.0, -2.2, -2.2),  # between the clips
        (1.1, 0.0, 0.0, 0.0),
    ],
)
def test_the_clip_stops_the_gradient_where_it_has_gone_far_enough(
    ratio: float, gain: float, loss: float, slope: float
) -> None:
    log_p = torch.tensor([math.log(ratio)])
    found = clipped_objective(log_p, torch.zeros(1), torch.tensor([gain]), 0.2)
    assert float(found.loss) == pytest.approx(loss, rel=1e-5)
    assert float(found.slope) == pytest.approx(slope, rel=1e-5)
    # r - 1 - ln r
    assert float(found.approx_kl) == pytest.approx(ratio - 1 - math.log(ratio), rel=1e-4)
    assert float(found.clip_fraction) == (1.0 if ratio in (20.0, 0.1) else 0.0)


def test_the_clipped_objective_is_the_papers() -> None:
    old, advantage = numbers(500, seed=1), numbers(500, seed=2)
    log_p = (old + 0.3 * numbers(500, seed=3)).requires_grad_()
    ratio = (log_p - old).exp()
    loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    (slope,) = torch.autograd.grad(loss, log_p)
    with torch.no_grad():
        found = clipped_objective(log_p, old, advantage, 0.2)
    assert 0.2 < float(found.clip_fraction) < 0.8
    assert torch.allclose(found.loss, loss)
    assert torch.allclose(found.slope, slope)


@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_the_critics_loss_and_its_slope(clip: float) -> None:
    target, old = numbers(500, seed=1), numbers(500, seed=2)
    value = (old + 0.3 * numbers(500, seed=3)).requires_grad_()
    loss = (value - target).square()
    if clip:
        clipped = old + (value - old).clamp(-clip, clip)
        loss = torch.maximum(loss, (clipped - target).square())
    (slope,) = torch.autograd.grad(loss.mean(), value)
    with torch.no_grad():
        found, by_value = value_error(value, target, old, clip)
    assert torch.allclose(found, loss.mean())
    assert torch.allclose(by_value, slope)
    assert (float((slope == 0).double().mean()) > 0.1) == bool(clip)


@pytest.mark.parametrize("entropy", [0.0, -0.01])
@pytest.mark.parametrize("head", HEADS)
def test_the_slopes_of_a_head_are_autograds(
    head: Categorical | MultiCategorical | Gaussian, entropy: float
) -> None:
    head = head.double()
    outputs = numbers(64, head.inputs, seed=1).requires_grad_()
    action = head.sample(outputs, torch.Generator().manual_seed(2)).detach()
    by_log_p = numbers(64, seed=3)
    log_p, entropies = head.evaluate(outputs, action)
    loss = (by_log_p * log_p).sum() + entropy * entropies.sum()
    free = [outputs, *head.parameters()]
    expected = torch.autograd.grad(loss, free)
    with torch.no_grad():
        same, alike, slopes_by = head.with_slopes(outputs, action)
        found = slopes_by(by_log_p, entropy)
    assert torch.equal(same, log_p) and torch.equal(alike, entropies)
    assert len(found) == len(free)
    for (of, slope), tensor, gradient in zip(found, free, expected, strict=True):
        assert of is tensor
        assert slope.shape == gradient.shape
        assert torch.allclose(slope, gradient)


def test_a_choice_by_hand() -> None:
    # p = 1/4 and 3/4, the second was chosen: ∂log p/∂x = -1/4 and 1/4.
    logits = torch.tensor([[0.0, math.log(3.0)]])
    _, entropy, slopes_by = Categorical(2).with_slopes(logits, torch.tensor([1]))
    assert torch.allclose(slopes_by(torch.ones(1), 0.0)[0][1], torch.tensor([[-0.25, 0.25]]))
    # H = 1/4 ln 4 + 3/4 ln 4/3 = 0.56234; ∂H/∂x_1 = -1/4 (ln 1/4 + H) = 0.20599
    assert float(entropy) == pytest.approx(0.56234, abs=1e-5)
    expected = torch.tensor([[0.20599, -0.20599]])
    assert torch.allclose(slopes_by(torch.zeros(1), 1.0)[0][1], expected, atol=1e-5)


def test_advantages_are_scaled_and_one_alone_is_left() -> None:
    # 1, 2, 3: mean 2, standard deviation 1
    scaled = normalized(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.allclose(scaled, torch.tensor([-1.0, 0.0, 1.0]))
    assert normalized(torch.tensor([5.0])).tolist() == [5.0]
    assert torch.allclose(normalized(torch.full((4,), 7.0)), torch.zeros(4))
    assert F.mse_loss(normalized(numbers(100)).std(), torch.ones((), dtype=torch.float64)) < 1e-9

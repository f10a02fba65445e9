"""Adam on one vector, beside torch's on every weight."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from hpcpod.agents.cuda_graphs import Captured, recorder_for
from hpcpod.agents.networks import mlp
from hpcpod.agents.offpolicy import Follower
from hpcpod.agents.optimizer import Adam, flatten


def network(seed: int = 0) -> nn.Sequential:
    return mlp([3, 5, 2], nn.ReLU, 1.0, torch.Generator().manual_seed(seed))


def loss_of(module: nn.Module, seed: int) -> torch.Tensor:
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed))
    loss: torch.Tensor = module(x).square().mean()
    return loss


def test_weights_are_views_that_begin_where_kernels_want_them() -> None:
    module = network()
    before = [p.detach().clone() for p in module.parameters()]
    vector = flatten(module)
    # 15, 5, 10 and 2 numbers, each filled up to a multiple of 16
    assert vector.shape == (64,) and not vector.requires_grad
    for p, was in zip(module.parameters(), before, strict=True):
        assert torch.equal(p, was) and p.requires_grad
        assert (p.data_ptr() - vector.data_ptr()) % 64 == 0
    vector.fill_(1.0)
    assert all(bool((p == 1.0).all()) for p in module.parameters())


@pytest.mark.parametrize("max_norm", [0.0, 0.05])
def test_it_moves_as_torchs_adam_does(max_norm: float) -> None:
    module, other = network(), network()
    ours, theirs = Adam(module, 1e-2), torch.optim.Adam(other.parameters(), lr=1e-2)
    for seed in range(5):
        ours.backward((loss_of(module, seed), None))
        theirs.zero_grad()
        loss_of(other, seed).backward()  # type: ignore[no-untyped-call]
        if max_norm:
            norm = ours.clip(max_norm)
            expected = nn.utils.clip_grad_norm_(other.parameters(), max_norm)
            assert torch.allclose(norm, expected)
        ours.step()
        theirs.step()
        for p, q in zip(module.parameters(), other.parameters(), strict=True):
            assert torch.allclose(p, q, atol=1e-6)
    assert all(p.grad is None for p in module.parameters())


def test_a_loss_may_be_given_by_its_slopes() -> None:
    module, other = network(), network()
    x = torch.ones(7, 3)
    y = module(x)
    by_slopes, by_loss = Adam(module, 1e-2), Adam(other, 1e-2)
    by_slopes.backward((y, 2 * y.detach() / y.numel()))
    by_loss.backward((other(x).square().mean(), None))
    assert torch.allclose(by_slopes.clip(9.0), by_loss.clip(9.0))


def test_a_state_goes_on_where_it_was() -> None:
    module, later = network(), network(1)
    optimizer, other = Adam(module, 1e-2), Adam(later, 1e-2)
    fresh = optimizer.state()
    assert int(fresh["step"]) == 0
    assert all(not bool(t.any()) for t in fresh.values())
    for seed in range(3):
        optimizer.backward((loss_of(module, seed), None))
        optimizer.step()
    state = optimizer.state()
    assert int(state["step"]) == 3
    assert {name.partition("/")[2] for name in state} == {"", *dict(module.named_parameters())}
    assert all(state[f"exp_avg/{n}"].shape == p.shape for n, p in module.named_parameters())
    other.load(state)
    later.load_state_dict(module.state_dict())
    for each, its in ((module, optimizer), (later, other)):
        its.backward((loss_of(each, 9), None))
        its.step()
    for p, q in zip(module.parameters(), later.parameters(), strict=True):
        assert torch.equal(p, q)
    optimizer.load(fresh)
    assert all(torch.equal(t, fresh[name]) for name, t in optimizer.state().items())


def test_numbers_that_were_not_finite_leave_nothing_behind() -> None:
    module = network()
    optimizer, weights = Adam(module, 1e-2), {n: p.clone() for n, p in module.named_parameters()}
    good = optimizer.state()
    optimizer.backward((loss_of(module, 0) * torch.nan, None))
    assert bool(optimizer.clip(0.5).isnan())
    optimizer.step()
    optimizer.load(good)
    module.load_state_dict(weights)
    optimizer.backward((loss_of(module, 0), None))
    assert bool(optimizer.clip(0.5).isfinite())
    optimizer.step()
    assert all(bool(p.isfinite().all()) for p in module.parameters())


def test_weights_that_are_frozen_or_have_no_part_in_a_loss_stay() -> None:
    module = mlp([3, 5, 2], nn.ReLU, 1.0, torch.Generator().manual_seed(0))
    frozen, unused = module[0].weight, module[2].bias
    assert isinstance(frozen, nn.Parameter) and isinstance(unused, nn.Parameter)
    frozen.requires_grad_(False)
    optimizer = Adam(module, 1e-2)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    hidden = module[0](torch.ones(7, 3)).relu()
    optimizer.backward(((hidden @ module[2].weight.mT).sum(), None))
    optimizer.step()
    moved = [n for n, p in module.named_parameters() if not torch.equal(p, before[n])]
    assert moved == ["0.bias", "2.weight"]
    with pytest.raises(ValueError, match="moves weights, but a ReLU has none"):
        Adam(nn.ReLU(), 1e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_it_moves_as_on_the_cpu_also_when_captured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here, there = network(), network().to("cuda")
    slow, fast = Adam(here, 1e-2), Adam(there, 1e-2)
    x = torch.ones(7, 3)
    moved = x.to("cuda")  # a copy from here can't be captured

    def descend() -> tuple[torch.Tensor, ...]:
        fast.backward((there(moved).square().mean(), None))
        norm = fast.clip(0.05)
        fast.step()
        return (norm,)

    recorder = recorder_for(torch.Generator("cuda"))
    captured = Captured(lambda inputs: descend(), recorder)
    for step in range(10):
        slow.learning_rate = fast.learning_rate = 1e-2 / (step + 1)
        slow.backward((here(x).square().mean(), None))
        slow.clip(0.05)
        slow.step()
        captured({"x": torch.zeros(1, device="cuda")})
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        assert torch.allclose(p, q.cpu(), atol=1e-5)
    assert "kernel by kernel" not in caplog.text


def test_the_step_size_can_change() -> None:
    module = network()
    optimizer = Adam(module, 1e-2)
    optimizer.learning_rate = 0.0
    assert optimizer.learning_rate == 0.0
    before = [p.detach().clone() for p in module.parameters()]
    optimizer.backward((loss_of(module, 0), None))
    optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))


def test_a_follower_goes_a_part_of_the_way() -> None:
    module, target = network(), network(1)
    optimizer = Adam(module, 1e-2)
    follower = Follower(target, optimizer, 0.25)
    for p, q in zip(module.parameters(), target.parameters(), strict=True):
        assert torch.equal(p, q)
    slow = [q.detach().clone() for q in target.parameters()]
    optimizer.vector.add_(1.0)
    follower.move()
    for q, was in zip(target.parameters(), slow, strict=True):
        assert torch.allclose(q, was + 0.25)


def test_a_gradient_may_be_known_in_parts() -> None:
    module = network()
    optimizer, weights = Adam(module, 1e-2), dict(module.named_parameters())
    found = torch.autograd.grad(loss_of(module, 0), list(weights.values()))
    gradients = dict(zip(weights, found, strict=True))
    optimizer.backward(*[(weights[name], gradients[name]) for name in gradients])
    everything = torch.cat([g.flatten() for g in gradients.values()])
    assert torch.allclose(optimizer.clip(9.0), everything.norm())
    # The loss itself, and on top of it what is said of one weight.
    optimizer.backward((loss_of(module, 0), None), (weights["0.bias"], gradients["0.bias"]))
    gradients["0.bias"] = 2 * gradients["0.bias"]
    everything = torch.cat([g.flatten() for g in gradients.values()])
    assert torch.allclose(optimizer.clip(9.0), everything.norm())
    optimizer.backward((weights["0.bias"], torch.full((5,), 2.0)))
    assert float(optimizer.clip(99.0)) == pytest.approx(2 * 5**0.5)


def test_learning_does_not_load_the_compiler() -> None:
    learn = """
import sys, torch
from hpcpod.agents.optimizer import Adam
module = torch.nn.Linear(2, 1)
optimizer = Adam(module, 1e-2)
optimizer.backward((module(torch.ones(3, 2)).square().mean(), None))
optimizer.step()
print("torch._dynamo" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", learn], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"

"""SAC, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.agents import offpolicy
from hpcpod.agents.distributions import SquashedGaussian
from hpcpod.agents.networks import Critics
from hpcpod.agents.observations import Observations
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, State
from tests.agents.training import evaluate, iterate, row, spec

ACTION = Box((2,), -1.0, 1.0)


def outputs(mean: float, std: float) -> Tensor:
    return torch.tensor([[mean, math.log(std)]])


def agent(**config: Any) -> SAC:
    small: dict[str, Any] = {"hidden": 16, "batch_size": 8, "learning_starts": 8, "horizon": 8}
    return SAC(spec(ACTION), SACConfig(**{**small, **config}), seed=0)


def batch(size: int = 8) -> State:
    generator = torch.Generator().manual_seed(1)
    inputs, after = torch.randn((2, size, 3), generator=generator)
    action = torch.rand((size, 2), generator=generator) * 2 - 1
    return {
        "inputs": inputs,
        "action": action,
        "next_inputs": after,
        "reward": torch.randn(size, generator=generator),
        "discount": torch.full((size,), 0.99),
    }


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 0.5)])
def test_the_density_of_actions_is_the_log_probability(mean: float, std: float) -> None:
    # By another way: the distribution function of a = tanh(u) is Φ((artanh a - μ) / σ), and a
    # density is its slope.
    def below(action: Tensor) -> Tensor:
        u: Tensor = torch.atanh(action)
        return 0.5 * (1 + torch.erf((u - mean) / (std * math.sqrt(2))))

    noise = torch.linspace(-2, 2, 41, dtype=torch.float64)[:, None]
    head = SquashedGaussian((1,))
    action, log_p = head.reparameterised(outputs(mean, std).double().expand(41, 2), noise)
    h = 1e-6 * (1 - action.square())
    slope = (below(action + h) - below(action - h)) / (2 * h)
    assert torch.allclose(slope.log().squeeze(-1), log_p, atol=1e-6)


def test_the_log_probability_by_hand() -> None:
    action, log_p = SquashedGaussian((1,)).reparameterised(outputs(0.5, 0.2), torch.ones(1, 1))
    # u = 0.7, a = tanh 0.7 = 0.604368;  log N = -1/2 - ln 0.2 - 0.918939 = 0.190499
    # 1 - a² = 0.634740, ln of it -0.454540: log p = 0.190499 + 0.454540
    assert float(action) == pytest.approx(0.604368, abs=1e-6)
    assert float(log_p) == pytest.approx(0.645039, abs=1e-5)


def test_it_is_the_log_probability_of_the_action_and_not_of_the_mean() -> None:
    # At the mean of N(0, 1) the log-density would be -0.919 for ε = 0 and ε = 2 alike.
    head = SquashedGaussian((1,))
    _, log_p = head.reparameterised(outputs(0.0, 1.0).expand(2, 2), torch.tensor([[0.0], [2.0]]))
    # ε = 2: -2 - 0.918939 - ln(1 - tanh² 2) = -2.918939 + 2.650003
    assert log_p.tolist() == pytest.approx([-0.918939, -0.268936], abs=1e-5)


def test_far_out_where_one_minus_tanh_squared_is_zero_in_float32_it_stays_exact() -> None:
    mean = torch.tensor([[20.0, 0.0]], requires_grad=True)
    action, log_p = SquashedGaussian((1,)).reparameterised(mean, torch.zeros(1, 1))
    assert action.tolist() == [[1.0]]
    # ln(1 - tanh² 20) = 2 (ln 2 - 20) but for e^-40: log p = -0.918939 + 38.613706
    assert log_p.tolist() == pytest.approx([37.694767], abs=1e-4)
    (gradient,) = torch.autograd.grad(log_p.sum(), mean)
    assert float(gradient[0, 0]) == pytest.approx(2.0)


@torch.no_grad()
def test_samples_are_squashed_and_the_best_guess_is_the_squashed_mean() -> None:
    head, generator = SquashedGaussian((1,)), torch.Generator().manual_seed(0)
    noise = torch.randn(40_000, 1, generator=generator)
    sample = head.at(outputs(0.3, 0.5).expand(40_000, 2), noise)
    assert sample.shape == (40_000, 1) and float(sample.abs().max()) < 1
    # artanh undoes it: σ of the mean is 0.5 / √40000 = 0.0025
    assert float(torch.atanh(sample).mean()) == pytest.approx(0.3, abs=0.0125)
    assert float(torch.atanh(sample).std()) == pytest.approx(0.5, abs=0.0125)
    assert float(head.mode(outputs(0.3, 0.5))) == pytest.approx(math.tanh(0.3))


def test_fractions_of_updates_add_up_and_survive_a_restart() -> None:
    # 0.375 · 1 row · 2 environments: three updates in four rounds.
    instance = agent(updates_per_step=0.375, horizon=1, learning_starts=0)
    buffer = instance.make_buffer()
    done = []
    for t in range(10):
        obs, _, step = row(t)
        buffer.add(obs / 100, instance.act(obs / 100, explore=True), step)
        instance.update(buffer)
        state = instance.state()
        done.append(int(state["updates"]))
        instance = agent(updates_per_step=0.375, horizon=1, learning_starts=0)
        instance.load(state)
    assert done == [0, 1, 2, 3, 3, 4, 5, 6, 6, 7]


def test_truncation_bootstraps_but_termination_does_not() -> None:
    instance = agent(gamma=0.9)
    buffer = instance.make_buffer()
    obs, action, step = torch.zeros(2, 3), torch.zeros(2, 2), row(0)[2]
    ended = step._replace(
        obs=obs,
        next_obs=obs,
        reward=torch.tensor([1.0, 2.0]),
        truncated=torch.tensor([True, False]),
        terminated=torch.tensor([False, True]),
    )
    buffer.add(obs, action, ended)
    drawn = buffer.sample(50, torch.Generator().manual_seed(0), gamma=0.9)
    target = offpolicy.critic_target(drawn, torch.full((50,), 10.0))
    # truncated: 1 + 0.9 · 10;  terminated: 2
    assert set(target.tolist()) == {10.0, 2.0}


@torch.no_grad()
def test_the_target_by_hand() -> None:
    instance = agent(gamma=0.9, temperature=0.5)
    state = {
        name: torch.zeros_like(t) for name, t in instance.state().items() if t.is_floating_point()
    }
    # Networks of nothing but the last bias: μ = 0, σ = 1, Q'_1 = 7 and Q'_2 = 3.
    state["target/critics/bias"] = torch.tensor([7.0, 3.0]).view(2, 1)
    instance.load({**instance.state(), **state})
    sample = {**batch(2), "reward": torch.tensor([1.0, 1.0])}
    sample["discount"] = torch.tensor([0.9, 0.0])
    target = instance._target(sample, instance.alpha, torch.zeros(2, 2))
    # ε = 0: log π = 2 · -0.918939;  1 + 0.9 (3 + 0.5 · 1.837877) = 4.527045
    assert target.shape == (2,)
    assert target.tolist() == pytest.approx([4.527045, 1.0], abs=1e-5)


@torch.no_grad()
def test_the_policys_loss_by_hand() -> None:
    instance = agent(temperature=0.5)
    state = {n: torch.zeros_like(t) for n, t in instance.state().items() if t.is_floating_point()}
    state["network/critics/bias"] = torch.tensor([7.0, 3.0]).view(2, 1)
    instance.load({**instance.state(), **state})
    loss, log_p = instance._policy_loss(
        {"inputs": torch.ones(4, 3)}, instance.alpha, torch.zeros(4, 2)
    )
    assert log_p.tolist() == pytest.approx([-1.837877] * 4)
    assert loss.tolist() == pytest.approx(0.5 * -1.837877 - 3)


@pytest.mark.parametrize("at_once", [1, 40, 10_000])
def test_batches_hold_the_true_successors_however_they_are_gathered(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offpolicy, "_GATHERED", at_once)
    instance = agent()
    buffer = instance.make_buffer()
    for t in range(20):
        obs, _, step = row(t, truncated=[t % 3 == 0, False], terminated=[False, t % 5 == 0])
        buffer.add(obs, obs[:, :2] + 0.25, step)
    seen, generator = Observations(spec(), False, "cpu"), torch.Generator().manual_seed(0)
    drawn = list(offpolicy.batches(buffer, seen, 7, 16, 0.5, generator))
    assert len(drawn) == 7
    for part in drawn:
        obs, reward = part["inputs"], part["reward"]
        assert obs.shape == (16, 3) and reward.shape == (16,)
        assert torch.equal(obs[:, 0], reward)
        assert torch.equal(part["action"], obs[:, :2] + 0.25)
        cut = (reward < 100) & (reward % 3 == 0)
        ended = (reward >= 100) & ((reward - 100) % 5 == 0)
        assert torch.equal(part["discount"], torch.where(ended, 0.0, 0.5))
        after = obs + torch.where(cut, 0.5, 1.0)[:, None]
        assert torch.equal(part["next_inputs"][~ended], after[~ended])


@torch.no_grad()
def test_the_smallest_critic_counts_for_each_transition() -> None:
    instance = agent(gamma=1.0, temperature=1e-9)
    state = instance.state()
    targets = {n: torch.zeros_like(t) for n, t in state.items() if n.startswith("target/critics")}
    targets["target/critics/hidden.weights.0"][0, 0, 0] = 1.0  # Q_1 = x_1
    targets["target/critics/hidden.weights.1"][0, 0, 0] = 1.0
    targets["target/critics/weight"][0, 0, 0] = 1.0
    targets["target/critics/bias"][1] = 3.0  # Q_2 = 3
    instance.load({**state, **targets})
    sample = {**batch(2), "reward": torch.zeros(2), "discount": torch.ones(2)}
    sample["next_inputs"] = torch.tensor([[5.0, 9.0, 9.0], [1.0, 9.0, 9.0]])
    target = instance._target(sample, instance.alpha, torch.zeros(2, 2))
    # min(5, 3) and min(1, 3); the first network alone says 5 and 1
    assert target.tolist() == pytest.approx([3.0, 1.0])
    first = instance._target_critics.first(sample["next_inputs"], torch.zeros(2, 2))
    assert first.tolist() == [5.0, 1.0]


def test_critics_in_one_product_are_their_networks_one_by_one() -> None:
    critics = Critics(3, [4, 8, 8], torch.nn.Identity(), torch.Generator().manual_seed(0))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    hidden = critics.hidden
    for k, value in enumerate(critics(x[:, :3], x[:, 3:])):
        h = x
        for weight, bias in zip(hidden.weights, hidden.biases, strict=True):
            h = (h @ weight[k] + bias[k]).relu()
        h = h @ critics.weight[k, 0] + critics.bias[k]
        assert torch.allclose(value, h, atol=1e-5)
    assert not torch.equal(hidden.weights[0][0], hidden.weights[0][1])


def test_the_actors_pass_leaves_no_gradient_in_the_critics() -> None:
    instance = agent()
    before = [p.detach().clone() for p in instance._critics.parameters()]
    loss, _ = instance._policy_loss(batch(), instance.alpha, torch.zeros(8, 2))
    weights = dict(instance._actor.named_parameters())
    expected = torch.autograd.grad(loss, list(weights.values()), retain_graph=True)
    instance._descend("actor", loss)
    for name, gradient in zip(weights, expected, strict=True):
        first = instance.state()[f"optimizer/actor/exp_avg/{name}"]  # 1 - β of the gradient
        assert torch.allclose(first, 0.1 * gradient, atol=1e-7) and bool(gradient.any())
    for p, was in zip(instance._critics.parameters(), before, strict=True):
        assert torch.equal(p, was)


@pytest.mark.parametrize(("target_entropy", "direction"), [(-5.0, -1), (5.0, 1)])
def test_too_random_a_policy_cools_and_too_certain_a_one_heats(
    target_entropy: float, direction: int
) -> None:
    # A fresh policy's entropy is near 2 · 0.7: more than -10 and less than 10.
    instance = agent(target_entropy=target_entropy, learning_rate=1e-2)
    (metrics,) = instance._update_all(batch())
    assert float(metrics[4]) == 1.0
    # Adam's first step is its learning rate.
    assert float(instance.alpha.log()) == pytest.approx(direction * 1e-2, rel=1e-3)


def test_a_fixed_temperature_stays_whatever_a_parent_had_learned() -> None:
    parent = agent(temperature_init=3.0)
    child = agent(temperature=0.25)
    child.load(parent.state())
    child._update_all(batch())
    assert float(child.alpha) == 0.25
    assert float(child.state()["network/temperature/log_alpha"]) == pytest.approx(math.log(3.0))


def test_actions_are_uniform_until_learning_starts() -> None:
    many = SAC(spec(ACTION, num_envs=10_000), SACConfig(learning_starts=10_000), seed=0)
    obs = torch.zeros(10_000, 3)
    many.act(obs, explore=False)  # an evaluation is no experience
    action = many.act(obs, explore=True)
    # σ of a uniform variable's mean: √(1/3) / 100;  its variance is 1/3
    assert float(action.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(action.var()) == pytest.approx(1 / 3, abs=0.01)
    squashed = torch.atanh(many.act(obs, explore=True))
    assert float(squashed.var()) == pytest.approx(1.0, abs=0.05)  # the policy's own


def test_it_waits_for_its_first_transitions_and_then_updates_as_often_as_it_should() -> None:
    instance = agent(learning_starts=10, updates_per_step=0.5)
    buffer = instance.make_buffer()
    before = instance.state()["network/actor/0.weight"]
    for t in range(5):
        assert instance.update(buffer) == {}
        assert torch.equal(before, instance.state()["network/actor/0.weight"])
        obs, _, step = row(t)
        buffer.add(obs, instance.act(obs, explore=True), step)
    assert "critic_loss" in instance.update(buffer)  # 10 transitions
    assert int(instance.state()["updates"]) == 8  # half of 8 rows of 2 environments


def test_it_refuses_a_rollout() -> None:
    with pytest.raises(TypeError, match="sac learns from a ReplayBuffer, got a RolloutBuffer"):
        agent().update(RolloutBuffer())


@pytest.mark.slow
def test_sac_swings_the_pendulum_up() -> None:
    env = PreprocessVecEnv("Pendulum-v1", 1)
    learner = SAC(env.spec, SACConfig(learning_rate=1e-3, hidden=64), seed=0)
    buffer, obs, best = learner.make_buffer(), env.reset(torch.arange(1)), -math.inf
    for iteration in range(10_000 // learner.horizon):
        obs, _ = iterate(learner, env, buffer, obs)
        if iteration % 64 == 63:
            best = evaluate(learner, "Pendulum-v1")
        if best >= -200:
            break
    assert best >= -200


def test_each_of_a_pods_ranks_warms_up_by_itself() -> None:
    # Four ranks, whose steps are summed at each fusion; 10 random transitions are asked of each.
    one = agent(learning_starts=10, horizon=2, noise_memory=1)
    buffer, random = one.make_buffer(), 0
    generator = torch.Generator().manual_seed(0)
    for t in range(12):
        before = generator.set_state(one._generator.get_state())
        expected = torch.empty(2, 2).uniform_(-1.0, 1.0, generator=before)
        random += 2 * int(torch.equal(one.act(torch.zeros(2, 3), explore=True), expected))
        obs, _, step = row(t)
        buffer.add(obs, torch.zeros(2, 2), step)
        if t % 2:
            one.update(buffer)
            state = one.state()
            one.load({**state, "env_steps": state["env_steps"] + 3 * 4})  # of the other ranks
    assert random == 10


def test_a_learner_whose_rows_another_process_collects_knows_how_many_they_are() -> None:
    """In a pipeline the actor counts by acting, and at a round's start it has the learner's."""
    one = agent(learning_starts=10)
    buffer = one.make_buffer()
    for t in range(6):
        obs, _, step = row(t)
        buffer.add(obs, torch.zeros(2, 2), step)
    one.update(buffer)
    assert int(one.state()["own_steps"]) == 12


def test_a_checkpoint_from_before_ranks_counted_their_own_steps_goes_on_as_it_did() -> None:
    one = agent(learning_starts=10)
    for _ in range(7):
        one.act(torch.zeros(2, 3), explore=True)
    old = {name: tensor for name, tensor in one.state().items() if name != "own_steps"}
    other = agent(learning_starts=10)
    other.load(old)
    assert int(other.state()["own_steps"]) == 14

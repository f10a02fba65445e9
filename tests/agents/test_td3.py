"""TD3 and DDPG, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.agents.base import Buffer
from hpcpod.agents.offpolicy import squared_error
from hpcpod.agents.td3 import DDPG, TD3, DDPGConfig, TD3Config, smoothed
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, State
from tests.agents.training import evaluate, iterate, row, spec

ACTION = Box((2,), -1.0, 1.0)


def agent(kind: type[TD3] = TD3, **config: Any) -> TD3:
    small: dict[str, Any] = {"hidden": 16, "batch_size": 8, "learning_starts": 8, "horizon": 1}
    return kind(spec(ACTION), kind.Config(**{**small, **config}), seed=0)


def filled(instance: TD3) -> Buffer:
    buffer = instance.make_buffer()
    for t in range(10):
        obs, _, step = row(t)
        buffer.add(obs / 100, instance.act(obs / 100, explore=True), step)
    return buffer


def parts(state: State, prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}


def same(a: State, b: State, prefix: str) -> bool:
    first, second = parts(a, prefix), parts(b, prefix)
    assert first.keys() == second.keys() and first
    return all(torch.equal(first[name], second[name]) for name in first)


def constant(instance: TD3, critics: list[float]) -> TD3:
    """The same with targets of nothing but the critics' last biases."""
    state = instance.state()
    zeros = {n: torch.zeros_like(t) for n, t in state.items() if n.startswith("target/")}
    zeros["target/critics/bias"] = torch.tensor(critics).view(-1, 1)
    instance.load({**state, **zeros})
    return instance


def batch(reward: list[float], discount: list[float]) -> State:
    size = len(reward)
    return {
        "inputs": torch.ones(size, 3),
        "action": torch.ones(size, 2),
        "next_inputs": torch.ones(size, 3),
        "reward": torch.tensor(reward),
        "discount": torch.tensor(discount),
    }


def test_the_noise_of_the_target_is_cut_and_so_is_its_action() -> None:
    action = torch.tensor([0.0, 0.0, 0.8, -0.9])
    noise = torch.tensor([0.3, -4.0, 4.0, -0.4])
    # 0.3;  -0.5, not -4;  0.8 + 0.5 cut to 1;  -1.3 cut to -1
    assert smoothed(action, noise, 0.5).tolist() == pytest.approx([0.3, -0.5, 1.0, -1.0])


def test_the_target_by_hand() -> None:
    instance = constant(agent(), [7.0, 3.0])
    sample = batch([1.0, 1.0, 2.0, 0.0], [0.9, 0.0, 0.9, 0.9])
    # The smaller critic says 3: 1 + 0.9 · 3 = 3.7;  1 where it terminated;  4.7;  2.7
    (values,) = instance._target_values(sample)
    assert values.tolist() == pytest.approx([3.7, 1.0, 4.7, 2.7])


def test_the_target_is_smoothed_over_actions() -> None:
    # Q' = 10 (a_1 + a_2) and π' = 0: the value is that of the noise alone, ±0.5 at most.
    def values(target_noise: float) -> Tensor:
        instance = constant(agent(target_noise=target_noise), [0.0, 0.0])
        target = instance._target_critics
        with torch.no_grad():
            for weight in (*target.hidden.weights, target.weight):
                weight.zero_()
            target.hidden.weights[0][:, 3:, 0] = 10.0
            target.hidden.biases[0].fill_(100.0)  # so that ReLU cuts nothing
            target.hidden.weights[1][:, 0, 0] = 1.0
            target.weight[:, 0, 0] = 1.0
        return instance._target_values(batch([0.0] * 1000, [1.0] * 1000))[0] - 100.0

    assert float(values(target_noise=0.2).std()) == pytest.approx(10 * 0.2 * math.sqrt(2), rel=0.1)
    assert float(values(target_noise=50.0).abs().max()) == pytest.approx(10.0, abs=1e-3)
    assert float(values(target_noise=0.0).abs().max()) == 0.0


def test_the_policy_and_the_targets_move_at_every_second_update_only() -> None:
    instance = agent(updates_per_step=0.5)  # one update for one row of two environments
    buffer = filled(instance)
    states = [instance.state()]
    for _ in range(4):
        instance.update(buffer)
        states.append(instance.state())
    assert [int(state["updates"]) for state in states] == [0, 1, 2, 3, 4]
    for before, after, moves in zip(states, states[1:], [False, True, False, True], strict=False):
        assert not same(before, after, "network/critics/")
        assert same(before, after, "network/actor/") != moves
        assert same(before, after, "target/") != moves
        assert same(before, after, "optimizer/actor/") != moves


def test_updates_one_by_one_count_the_delay_like_updates_in_a_row() -> None:
    def metrics(updates: float, rounds: int) -> list[bool]:
        instance = agent(updates_per_step=updates / 2)
        buffer = filled(instance)
        return ["policy_loss" in instance.update(buffer) for _ in range(rounds)]

    assert metrics(1, 4) == [False, True, False, True]
    assert metrics(3, 2) == [True, True]


def test_the_targets_follow_by_tau() -> None:
    instance = agent(policy_delay=1, tau=0.25, updates_per_step=0.5)
    before = instance.state()
    assert same(before, {**before, **_renamed(before)}, "target/")  # they begin as copies
    instance.update(filled(instance))
    after = instance.state()
    for name, slow in parts(before, "target/").items():
        expected = 0.75 * slow + 0.25 * after[f"network/{name}"]
        assert torch.allclose(after[f"target/{name}"], expected, atol=1e-7), name


def _renamed(state: State) -> State:
    return {f"target/{name}": tensor for name, tensor in parts(state, "network/").items()}


def test_the_policys_pass_leaves_no_gradient_in_the_critics() -> None:
    instance = agent()
    critics, actor = (
        [p.detach().clone() for p in module.parameters()]
        for module in (instance._critics, instance._actor)
    )
    instance._update_policy({"inputs": torch.ones(8, 3)})
    for p, was in zip(instance._critics.parameters(), critics, strict=True):
        assert torch.equal(p, was)
    assert all(
        not torch.equal(p, was) for p, was in zip(instance._actor.parameters(), actor, strict=True)
    )


def test_the_policy_climbs_the_first_critic() -> None:
    instance = agent(learning_rate=1e-2)
    state = instance.state()
    zeros = {n: torch.zeros_like(t) for n, t in state.items() if n.startswith("network/critics")}
    instance.load({**state, **zeros})
    critics = instance._critics
    below, above = critics.hidden.weights
    with torch.no_grad():
        below[0, 4, 0] = above[0, 0, 0] = critics.weight[0, 0, 0] = 1.0
        critics.hidden.biases[0].fill_(10.0)
    # Q_1 = 10 + a_2 and Q_2 = 0: only the second number of the action is worth more.
    obs = torch.ones(8, 3)
    before = instance.act(obs, explore=False)
    losses = [float(instance._update_policy({"inputs": obs})[0]) for _ in range(30)]
    after = instance.act(obs, explore=False)
    assert losses[0] == pytest.approx(-10 - float(before[0, 1]))
    assert float((after - before)[:, 1].min()) > 0.3


def test_exploration_adds_noise_of_the_given_size_and_stays_within_bounds() -> None:
    config = TD3Config(exploration_noise=0.1, learning_starts=0)
    instance = TD3(spec(ACTION, num_envs=10_000), config, seed=0)
    obs = torch.zeros(10_000, 3)  # π(0) = 0: fresh biases are
    assert float(instance.act(obs, explore=False).abs().max()) == 0.0
    assert float(instance.act(obs, explore=True).std()) == pytest.approx(0.1, abs=0.005)
    wild = TD3(spec(ACTION, num_envs=100), TD3Config(exploration_noise=9.0, learning_starts=0), 0)
    assert float(wild.act(obs[:100], explore=True).abs().max()) == 1.0


def test_ddpg_is_td3_with_one_critic_without_smoothing_and_delay() -> None:
    config = DDPGConfig()
    assert (config.critics, config.target_noise, config.policy_delay) == (1, 0.0, 1)
    state = agent(DDPG).state()
    assert state["network/critics/hidden.weights.0"].shape == (1, 5, 16)


def test_ddpgs_targets_are_not_broadcast_to_a_square() -> None:
    instance = constant(agent(DDPG), [3.0])
    reward = [0.0, 1.0, 2.0, 3.0]
    sample = batch(reward, [0.9, 0.9, 0.9, 0.0])
    (target,) = instance._target_values(sample)
    assert target.tolist() == pytest.approx([2.7, 3.7, 4.7, 3.0])
    with torch.no_grad():
        for p in instance._critics.parameters():
            p.zero_()
    # Q = 0: the mean of the four squares, (7.29 + 13.69 + 22.09 + 9) / 4
    loss, mean = squared_error(instance._critics, sample["inputs"], sample["action"], target)
    assert loss.shape == mean.shape == ()
    assert loss.tolist() == pytest.approx(13.0175)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TD3, DDPG])
def test_it_swings_the_pendulum_up(kind: type[TD3]) -> None:
    env = PreprocessVecEnv("Pendulum-v1", 1)
    learner = kind(env.spec, kind.Config(learning_rate=1e-3, hidden=64), seed=0)
    buffer, obs, best = learner.make_buffer(), env.reset(torch.arange(1)), -math.inf
    for iteration in range(15_000 // learner.horizon):
        obs, _ = iterate(learner, env, buffer, obs)
        if iteration % 64 == 63:
            best = evaluate(learner, "Pendulum-v1")
        if best >= -200:
            break
    assert best >= -200

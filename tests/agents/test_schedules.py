"""Schedules go by the run's budget, which agents are told, or by steps; none ends all learning."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hpcpod.agents.base import Scheduled
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.schedules import BUDGET, Clock, falling
from hpcpod.envs.gymnasium import PreprocessVecEnv
from tests.agents.training import CLASSES, SMALL, iterate, small_agent, spec

TASKS = dict.fromkeys(("ppo", "a2c", "dqn"), "CartPole-v1")


def test_a_share_is_that_of_the_steps_else_that_of_the_run() -> None:
    clock = Clock()
    assert clock.share(50, steps=200) == 0.25
    assert clock.share(300, steps=200) == 1.0
    assert clock.share(BUDGET // 4) == 0.25  # it was told nothing: 100,000 steps stand in
    assert clock.share(BUDGET // 20, fraction=0.1) == 0.5
    clock.progress = 0.4
    assert clock.share(BUDGET) == 0.4
    assert clock.share(BUDGET, fraction=0.8) == 0.5
    assert clock.share(BUDGET, fraction=0.0) == 1.0
    assert clock.share(50, steps=200) == 0.25


def test_a_rate_never_falls_below_a_hundredth() -> None:
    assert [falling(0.0), falling(0.5), falling(1.0)] == pytest.approx([1.0, 0.505, 0.01])
    assert falling(1.0, to=0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("name", list(CLASSES))
def test_the_learning_rate_falls_with_the_run_and_every_optimizer_takes_it(name: str) -> None:
    env = PreprocessVecEnv(TASKS.get(name, "Pendulum-v1"), 4)
    agent: Any = small_agent(name, env.spec, anneal=True, anneal_to=0.1)
    assert isinstance(small_agent(name, env.spec), Scheduled)
    buffer, obs = agent.make_buffer(), env.reset(torch.arange(4))
    for progress, rate in ((0.0, 1e-3), (0.5, 5.5e-4), (1.0, 1e-4)):
        agent.proceed(progress)
        obs, metrics = iterate(agent, env, buffer, obs)
        assert agent.learning_rate == pytest.approx(rate)
        assert metrics
        for optimizer in agent.optimizers():
            assert optimizer.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_a_rate_that_was_annealed_to_nothing_still_moves_the_weights_and_those_of_a_copy(
    name: str,
) -> None:
    env = PreprocessVecEnv("CartPole-v1", 4)
    agent: Any = small_agent(name, env.spec, anneal_steps=64, anneal_to=0.0)
    buffer, obs = agent.make_buffer(), env.reset(torch.arange(4))
    for _ in range(3):
        obs, _ = iterate(agent, env, buffer, obs)
    before = agent.state()
    iterate(agent, env, buffer, obs)
    assert agent.learning_rate == pytest.approx(1e-5)
    weights = [n for n in before if n.startswith("network/") and n.endswith("weight")]
    assert all(not torch.equal(before[n], agent.state()[n]) for n in weights)
    copy: Any = small_agent(name, env.spec, anneal_steps=64, anneal_to=0.0, learning_rate=1.5e-3)
    copy.load(agent.state())
    assert copy.learning_rate == pytest.approx(1.5e-5)


def test_a_copy_is_where_the_run_is_and_not_where_its_parents_steps_are() -> None:
    config = DQNConfig(
        anneal=True, anneal_to=0.5, epsilon_end=0.0, epsilon_fraction=1.0, priority_beta=0.0
    )
    parent, copy = DQN(spec(), config, seed=0), DQN(spec(), config, seed=1)
    parent.proceed(0.0)
    for _ in range(100):
        parent.act(torch.zeros(2, 3), explore=True)
    parent.proceed(0.2)
    copy.load(parent.state())
    copy.proceed(0.8)
    assert (parent.epsilon, parent.beta) == pytest.approx((0.8, 0.2))
    assert (copy.epsilon, copy.beta) == pytest.approx((0.2, 0.8))
    assert copy.learning_rate == pytest.approx(5e-4 * 0.6)
    assert "progress" not in str(parent.state().keys())


def test_epsilon_falls_in_a_part_of_the_run_and_beta_rises_over_all_of_it() -> None:
    agent = DQN(spec(), DQNConfig(epsilon_start=1.0, epsilon_end=0.2, priority_beta=0.4), seed=0)
    told = []
    for progress in (0.0, 0.05, 0.1, 1.0):
        agent.proceed(progress)
        agent.act(torch.zeros(2, 3), explore=True)
        told.append((agent.epsilon, agent.beta))
    expected = [(1.0, 0.4), (0.6, 0.43), (0.2, 0.46), (0.2, 1.0)]
    assert told == [pytest.approx(pair) for pair in expected]
    # What older runs have stored, in steps, means what it meant.
    old = DQN(spec(), DQNConfig(epsilon_end=0.0, epsilon_steps=100, priority_beta_steps=40), seed=0)
    for _ in range(5):
        old.act(torch.zeros(2, 3), explore=True)
    old.proceed(0.99)
    assert (old.epsilon, old.beta) == pytest.approx((0.9, 0.55))


def test_a_pod_that_begins_late_explores_in_a_part_of_what_is_left_and_so_do_its_copies() -> None:
    config = DQNConfig(epsilon_start=1.0, epsilon_end=0.0, epsilon_fraction=0.2)
    late, copy = DQN(spec(), config, seed=0), DQN(spec(), config, seed=1)
    late.proceed(0.5)
    assert late.epsilon == 1.0
    late.act(torch.zeros(2, 3), explore=True)
    late.proceed(0.575)  # of a fifth of the half that was left, 0.075 / 0.1 is over
    assert late.epsilon == pytest.approx(0.25)
    copy.load(late.state())
    copy.proceed(0.59)
    assert copy.epsilon == pytest.approx(0.1)
    copy.proceed(0.9)
    assert copy.epsilon == 0.0
    # What is stored of before says nothing of it: the run's first step.
    old = {name: tensor for name, tensor in late.state().items() if name != "begun"}
    copy.load(old)
    copy.proceed(0.05)
    assert copy.epsilon == pytest.approx(0.75)


def test_an_heir_of_another_run_explores_by_the_new_run_alone() -> None:
    config = DQNConfig(epsilon_start=1.0, epsilon_end=0.0, epsilon_fraction=0.2)
    parent, heir = DQN(spec(), config, seed=0), DQN(spec(), config, seed=1)
    parent.proceed(0.5)  # a draw that began late in its run
    parent.act(torch.zeros(2, 3), explore=True)
    heir.load(parent.state())
    heir.begin_run()
    heir.proceed(0.0)
    assert heir.epsilon == 1.0
    heir.act(torch.zeros(2, 3), explore=True)
    heir.proceed(0.15)
    assert heir.epsilon == pytest.approx(0.25), "of the first half nothing was over before"
    steps = PPO(spec(), PPOConfig(learning_rate=0.1, anneal=True, anneal_steps=100), seed=0)
    old = steps.state()
    steps.load({**old, "env_steps": torch.tensor(100)})
    assert steps.learning_rate == pytest.approx(0.001)
    steps.begin_run()
    assert steps.learning_rate == pytest.approx(0.1)


def test_a_clip_falls_with_the_run_and_is_what_the_loss_takes() -> None:
    env = PreprocessVecEnv("CartPole-v1", 4)
    losses = []
    ways: list[dict[str, Any]] = [{"clip": 0.2, "anneal_clip": True}, {"clip": 0.2 * 0.505}]
    for given in ways:
        agent = PPO(env.spec, PPOConfig(**SMALL["ppo"], **given, learning_rate=0.03), seed=0)
        agent.proceed(0.5)
        assert agent.clip == pytest.approx(0.2 * 0.505)
        _, metrics = iterate(agent, env, agent.make_buffer(), env.reset(torch.arange(4)))
        losses.append(metrics)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0]["clip_fraction"] > 0.1

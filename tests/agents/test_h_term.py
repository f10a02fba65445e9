"""The Hamiltonian term, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.agents import h_term
from hpcpod.agents.distributions import SquashedGaussian
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.td3 import TD3, TD3Config
from hpcpod.envs.vec_env import Box
from tests.agents.training import row, spec


def test_the_energy_by_hand() -> None:
    # π = 0.5, then 0.2; steps worth 0 and 1 in a run, ½ and ½ in another with π = 1.
    log_p = torch.tensor([[0.5, 0.2], [1.0, 1.0]]).log()
    energy = h_term.energy(log_p, torch.tensor([[0.0, 1.0], [0.5, 0.5]]))
    # First: 0 · 0.5 + 0.8 · 1 · 0.1 = 0.08; second: ½ + 0.8 · ½ = 0.9
    assert float(energy) == pytest.approx(-(0.08 + 0.9) / 2)


@pytest.mark.parametrize(("density", "slope"), [(200.0, 0.0), (-200.0, 0.0), (1.0, math.e)])
def test_products_of_densities_neither_overflow_nor_vanish(density: float, slope: float) -> None:
    log_p = torch.tensor([[0.0, density]], requires_grad=True)
    energy = h_term.energy(log_p, torch.tensor([[0.0, 1.0]]))
    assert math.isfinite(float(energy.detach()))
    (gradient,) = torch.autograd.grad(energy, log_p)
    # d/dℓ of -0.8 exp(ℓ) within the limits, 0 beyond
    assert gradient.tolist()[0] == pytest.approx([-0.8 * slope] * 2)


def test_the_best_eighth_is_taken_and_worth_its_reward_between_lowest_and_highest() -> None:
    reward = torch.arange(16.0)[:, None] + torch.tensor([0.0, 0.5])
    whole = torch.ones(16, dtype=torch.bool)
    best, worth = h_term.best_runs(reward, whole)
    assert best.tolist() == [15, 14]
    # Rewards from 0 to 15.5.
    assert torch.allclose(worth, torch.tensor([[15.0, 15.5], [14.0, 14.5]]) / 15.5)
    assert h_term.candidates(256, 4) == 8 * 64


def test_a_run_across_an_episodes_end_counts_for_nothing() -> None:
    reward = torch.tensor([[0.0, 1.0], [100.0, -100.0], [0.5, 0.5]])
    best, worth = h_term.best_runs(reward.repeat(3, 1), torch.tensor([True, False, True] * 3))
    # 0 + 0.8 · 1 is less than ½ + 0.8 · ½
    assert set((best % 3).tolist()) == {2}
    assert worth[0].tolist() == [0.5, 0.5]
    best, worth = h_term.best_runs(reward, torch.zeros(3, dtype=torch.bool))
    assert worth.tolist() == [[0.0, 0.0]]
    # Two runs, of which one is none: the mean is that of the other.
    energy = h_term.energy(torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    assert float(energy) == pytest.approx(-1.8)


def test_equal_rewards_are_worth_1() -> None:
    _, worth = h_term.best_runs(torch.ones(8, 2), torch.ones(8, dtype=torch.bool))
    assert worth.tolist() == [[1.0, 1.0]]


def test_a_rollouts_runs_are_steps_in_a_row_of_one_environment() -> None:
    # Rows 0 to 5 of two environments; row 2 of the first is its episode's end.
    rows, n = 6, 2
    reward = (100 * torch.arange(n) + torch.arange(rows)[:, None]).float()
    ended = torch.zeros(rows, n, dtype=torch.bool)
    ended[2, 0] = True
    rollout = {
        "reward": reward,
        "terminated": ended,
        "truncated": torch.zeros_like(ended),
        "valid": torch.ones_like(ended),
    }
    inputs = reward.flatten()[:, None]
    runs = h_term.rollout_runs(inputs, reward.flatten(), rollout, 3)
    # Of 2 · 4 starts one is kept: environment 1 from row 3 on.
    assert runs is not None
    assert runs["action"].tolist() == [[103.0, 104.0, 105.0]]
    assert torch.allclose(runs["worth"], runs["action"] / 105)
    assert runs["inputs"].shape == (1, 3, 1)
    rollout["reward"] = -reward
    worst = h_term.rollout_runs(inputs, reward.flatten(), rollout, 3)
    assert worst is not None
    assert worst["action"].tolist() == [[0.0, 1.0, 2.0]]  # an episode's last row may be in it
    assert h_term.rollout_runs(inputs, reward.flatten(), rollout, 7) is None


@pytest.mark.parametrize("rows", [7, 8, 9, 20, 31])
def test_a_rings_runs_never_cross_the_seam(rows: int) -> None:
    buffer = ReplayBuffer(spec(), 16)
    for t in range(rows):
        buffer.add(*row(t, truncated=[t % 5 == 0, False]))
    drawn = buffer.sample_runs(500, 3, torch.Generator().manual_seed(0))
    steps = drawn["reward"].diff(dim=1)
    assert torch.equal(steps, torch.ones_like(steps))
    first = drawn["reward"][:, 0]
    assert set((first % 100).tolist()) == set(range(max(0, rows - 8), rows - 2))
    torn = (first < 100) & ((first % 5 == 0) | ((first + 1) % 5 == 0))
    assert torch.equal(drawn["whole"], ~torn)
    with pytest.raises(IndexError, match="fewer than 9 rows"):
        buffer.sample_runs(1, 9, torch.Generator())


def test_the_log_probability_of_a_taken_action_is_that_of_its_noise() -> None:
    head, outputs = SquashedGaussian((2,)), torch.tensor([[0.3, -1.0, 0.1, -0.4]])
    action, log_p = head.reparameterised(outputs, torch.tensor([[0.5, -1.2]]))
    assert torch.allclose(head.log_prob(outputs, action), log_p, atol=1e-5)
    assert math.isfinite(float(head.log_prob(outputs, torch.tensor([[1.0, -1.0]]))))


def good_left_bad_right(agent: Any) -> Tensor:
    """Train where a = -0.8 was well rewarded for four steps, and what was done else was not.

    The critics are told nothing: every target is 0. Returns the mean of the policy.
    """
    buffer = agent.make_buffer()
    obs = torch.zeros(2, 3)
    for t in range(agent.horizon):
        good = (t // 8) % 2 == 0
        action = torch.full((2, 1), -0.8 if good else 0.8)
        reward = torch.full((2,), 1.0 if good else 0.0)
        step = row(t, truncated=[t % 8 == 7] * 2)[2]
        buffer.add(obs, action, step._replace(reward=reward, obs=obs, next_obs=obs))
    for _ in range(10):
        agent.update(buffer)
    best: Tensor = agent.act(obs, explore=False)
    return best.mean()


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_it_imitates_the_best_runs(kind: Any) -> None:
    def mean(weight: float) -> float:
        config = kind.Config(
            h_term=weight, learning_starts=0, horizon=64, hidden=16, batch_size=32, gamma=0.0,
            learning_rate=3e-3, updates_per_step=0.25,
        )  # fmt: skip
        agent = kind(spec(Box((1,), -1.0, 1.0)), config, 0)
        agent._optimizers["critics"].learning_rate = 0.0
        with torch.no_grad():
            for p in agent._critics.parameters():
                p.zero_()
        return float(good_left_bad_right(agent))

    assert abs(mean(0.0)) < 0.2
    assert mean(1.0) < -0.3


def test_ppo_learns_with_it_and_reports_nothing_infinite() -> None:
    agent = PPO(
        spec(Box((1,), -1.0, 1.0)), PPOConfig(h_term=0.125, horizon=32, minibatch_size=16), 0
    )
    plain = PPO(spec(Box((1,), -1.0, 1.0)), PPOConfig(horizon=32, minibatch_size=16), 0)
    weights = []
    for each in (agent, plain):
        buffer = each.make_buffer()
        for t in range(32):
            obs, _, step = row(t)
            buffer.add(obs / 100, torch.full((2, 1), 0.3), step)
        assert all(math.isfinite(v) for v in each.update(buffer).values())
        weights.append(each.state()["network/policy.weight"])
    assert not torch.equal(*weights)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (lambda: PPOConfig(h_term=-1.0), "h_term must be at least 0, got -1.0"),
        (lambda: SACConfig(h_steps=0), "h_steps must be at least 1, got 0"),
        (lambda: SACConfig(h_steps=65), "h_steps must be at most 64, got 65"),
        (lambda: TD3Config(h_term=math.nan), "h_term must be at least 0, got nan"),
    ],
)
def test_impossible_weights_and_lengths_are_refused(config: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        config()

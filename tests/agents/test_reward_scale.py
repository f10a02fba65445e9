"""Rewards in units of the discounted return's standard deviation, by hand and in PPO."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from hpcpod.agents.fusion import fusion_rules
from hpcpod.agents.normalizer import RewardScale
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.vec_env import State
from hpcpod.testing import AgentContract
from tests.agents.training import SMALL, row, spec


def rollout(rewards: list[list[float]], **flags: list[list[bool]]) -> State:
    """T rows of N environments."""
    reward = torch.tensor(rewards)
    no = torch.zeros_like(reward, dtype=torch.bool)
    names = ("terminated", "truncated")
    given = {name: torch.tensor(flags[name]) if name in flags else no for name in names}
    valid = torch.tensor(flags["valid"]) if "valid" in flags else ~no
    return {"reward": reward, "valid": valid, **given}


def test_the_scale_by_hand() -> None:
    scale = RewardScale(2, gamma=0.5, device="cpu")
    # Environment 0: R = 1, 0.5 + 2 = 2.5, then its episode ends: 4. Environment 1: 0, 0, 8.
    given = rollout(
        [[1.0, 0.0], [2.0, 0.0], [4.0, 8.0]],
        terminated=[[False, False], [True, False], [False, False]],
    )
    returns = [1.0, 2.5, 4.0, 0.0, 0.0, 8.0]
    std = float(np.sqrt(np.var(returns) + 1e-8))
    assert torch.allclose(scale.learn(given), given["reward"] / std)
    # The next rollout goes on: R = 4/2 + 1 = 3 and 8/2 = 4; a truncated episode ends as well.
    more = rollout([[1.0, 0.0], [1.0, 1.0]], truncated=[[True, False], [False, False]])
    returns += [3.0, 4.0, 1.0, 3.0]
    std = float(np.sqrt(np.var(returns) + 1e-8))
    assert torch.allclose(scale.learn(more), more["reward"] / std)
    assert scale.state()["running"].tolist() == [1.0, 3.0]


def test_rows_that_only_reset_count_for_nothing_and_a_scaled_reward_is_at_most_ten() -> None:
    scale = RewardScale(1, gamma=0.9, device="cpu")
    nothing = rollout([[7.0]], valid=[[False]])
    assert scale.learn(nothing).tolist() == [[0.0]]
    assert float(scale.state()["count"]) == 0 and float(scale.state()["running"]) == 0
    ended = [[True]] * 401
    many = rollout([[0.0]] * 400 + [[-5.0]], terminated=ended)
    assert scale.learn(many).min() == -10.0  # 20 deviations


def test_in_the_long_run_it_is_gymnasiums() -> None:
    """It takes the variance as it was at each step, so a long run must have gone before."""

    class Noise(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)
        rng = np.random.default_rng(0)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            self.rewards.append(float(self.rng.normal(3.0, 2.0)))
            return np.zeros(1, np.float32), self.rewards[-1], False, False, {}

        rewards: list[float] = []  # noqa: RUF012

    theirs = gym.wrappers.NormalizeReward(Noise(), gamma=0.9, epsilon=1e-8)
    theirs.reset()
    told = [float(theirs.step(0)[1]) for _ in range(4000)]
    scale = RewardScale(1, gamma=0.9, device="cpu")
    ours = scale.learn(rollout([[r] for r in Noise.rewards]))
    assert ours[-1000:, 0].tolist() == pytest.approx(told[-1000:], rel=0.05)


def agent(**config: Any) -> PPO:
    given = {**SMALL["ppo"], "normalize_rewards": True, **config}
    return PPO(spec(), PPOConfig(**given), seed=0)


def learned(one: PPO, factor: float, iterations: int = 3) -> dict[str, torch.Tensor]:
    buffer = one.make_buffer()
    for t in range(16 * iterations):
        obs, action, step = row(t)
        reward = factor * torch.sin(step.reward)
        buffer.add(obs / 100, action, step._replace(reward=reward, next_obs=step.next_obs / 100))
        if t % 16 == 15:
            one.update(buffer)
    return one.state()


def test_what_is_learned_does_not_depend_on_the_unit_of_reward() -> None:
    small, large = learned(agent(), 1.0), learned(agent(), 1000.0)
    weights = [name for name in small if name.startswith("network/")]
    for name in weights:
        assert torch.allclose(small[name], large[name], atol=3e-4), name
    plain = [learned(agent(normalize_rewards=False), factor) for factor in (1.0, 1000.0)]
    apart = [(plain[0][name] - plain[1][name]).abs().max() for name in weights]
    assert max(apart) > 2e-3


def test_its_statistics_are_fused_and_the_returns_so_far_are_each_replicas_own() -> None:
    one = agent()
    state = learned(one, 1.0)
    rules = fusion_rules(one, state)
    assert {rules[f"normalizer/rewards/{name}"] for name in ("mean", "var", "count")} == {"moments"}
    assert rules["normalizer/rewards/running"] == "local"
    assert float(state["normalizer/rewards/count"]) == 96


def test_a_checkpoint_of_another_number_of_environments_begins_its_returns_anew() -> None:
    state = learned(agent(), 1.0)
    other = PPO(spec(num_envs=5), PPOConfig(**SMALL["ppo"], normalize_rewards=True), seed=0)
    other.load(state)
    assert other.state()["normalizer/rewards/running"].tolist() == [0.0] * 5
    assert torch.equal(other.state()["normalizer/rewards/var"], state["normalizer/rewards/var"])


class TestPPOWithScaledRewards(AgentContract):
    agent = "ppo"
    env = "Pendulum-v1"
    config = SMALL["ppo"] | {
        "normalize_rewards": True, "value_clip": 0.2, "anneal": True, "anneal_clip": True
    }  # fmt: skip


class TestPPOWithScaledRewardsAndReturns(TestPPOWithScaledRewards):
    config = SMALL["ppo"] | {"normalize_rewards": True, "normalize_returns": True}

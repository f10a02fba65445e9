"""The smallest task that has to be seen: point at the bright column of an image."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from hpcpod.agents.base import Agent
from hpcpod.envs.gymnasium import PreprocessVecEnv

SIDE = 8


class Bright(gym.Env[Any, Any]):
    """One column of four columns' width is bright; the reward is 1 for pointing at it.

    Discrete actions name a quarter of the image; a continuous one is a place from -1 to 1, whose
    reward falls linearly with the distance.
    """

    def __init__(self, discrete: bool) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8)
        self.action_space = (
            gym.spaces.Discrete(4) if discrete else gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        self._discrete = discrete
        self._quarter = self._t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        if self._discrete:
            reward = float(action == self._quarter)
        else:
            reward = 1.0 - abs(float(action[0]) - (self._quarter - 1.5) / 2.0)
        self._t += 1
        return self._see(), reward, False, self._t == 10, {}

    def save_state(self) -> dict[str, Any]:
        return {"quarter_and_t": np.array([self._quarter, self._t])}

    def load_state(self, state: dict[str, Any]) -> None:
        self._quarter, self._t = map(int, state["quarter_and_t"])

    def _see(self) -> Any:
        self._quarter = int(self.np_random.integers(4))
        image = self.np_random.integers(0, 60, (SIDE, SIDE, 1)).astype(np.uint8)
        image[:, 2 * self._quarter : 2 * self._quarter + 2] += 150
        return image


def best_return(agent: Agent, discrete: bool) -> float:
    """Mean reward of one step, without exploring."""
    env = PreprocessVecEnv(lambda: Bright(discrete), 64)
    obs, total = env.reset(torch.arange(64)), 0.0
    for _ in range(10):
        step = env.step(agent.act(obs, explore=False))
        total += float(step.reward.mean()) / 10
        obs = step.obs
    return total

"""Tasks of long episodes, in which only what comes late counts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

LENGTH = 1000
"""Steps of an episode."""


class Late(gym.Env[Any, Any]):
    """Observes where it is; gives a reward of 1 from step 501 on, and ends after 1,000."""

    observation_space = gym.spaces.Box(0.0, 2.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    noise = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._t, self._offset = 0, float(self.np_random.uniform(0.0, 1e-3))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._t += 1
        return self._seen(), float(self._t > 500), self._t == LENGTH, False, {}

    def _seen(self) -> Any:
        return np.array([self._t / LENGTH + self._offset + self.noise], np.float32)


def unsaveable(num_envs: int) -> SyncVectorEnv:
    """As many of them, whose state can't be saved."""
    return SyncVectorEnv([Late] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


class Saveable(Late):
    """The same, which saves its state."""

    def save_state(self) -> dict[str, Any]:
        return {"at": np.array([self._t, self._offset])}

    def load_state(self, state: dict[str, Any]) -> None:
        self._t, self._offset = int(state["at"][0]), float(state["at"][1])


class Drifting(Late):
    """The same, whose observations also depend on how many of them have been made."""

    made = 0

    def __init__(self) -> None:
        Drifting.made += 1
        self.noise = 0.1 * Drifting.made


class Shortening(Late):
    """The same, but an episode that is played again ends at once."""

    over = False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, end, cut, info = super().step(action)
        return obs, reward, end or self.over, cut, info

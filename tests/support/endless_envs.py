"""Environments whose episodes need not end."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

Obs = npt.NDArray[np.float32]


class Endless(gym.Env[Obs, Any]):
    """No episode ends, but for the first ``first`` ones, which end after ``ends`` steps."""

    def __init__(self, ends: int = 0, first: int = 10**9) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._ends, self._first = ends, first
        self._steps = self._episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._episodes += 1
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        ends = 0 < self._ends <= self._steps and self._episodes <= self._first
        return self._seen(), float(action), ends, False, {}

    def _seen(self) -> Obs:
        return self.np_random.normal(size=2).astype(np.float32)


class Straying(gym.Env[dict[str, Any], Any]):
    """Observes more than it declares, from its ``after``-th step on, and gives ``reward`` then."""

    def __init__(self, after: int = 0, reward: float = 0.0) -> None:
        pose = {"angle": gym.spaces.Discrete(3), "place": gym.spaces.Box(-1.0, 1.0, (2, 2))}
        self.observation_space = gym.spaces.Dict(
            {"goal": gym.spaces.Box(0.0, 1.0, ()), "pose": gym.spaces.Dict(pose)}
        )
        self.action_space = gym.spaces.Discrete(2)
        self._after, self._reward, self._steps = after, reward, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._steps += 1
        strays = self._steps > self._after
        return self._seen(), self._reward if strays else 0.0, False, False, {}

    def _seen(self) -> dict[str, Any]:
        place = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        if self._steps > self._after:
            place[1, 0] = 7.5
        goal = np.asarray(self.np_random.uniform(), np.float32)
        return {"goal": goal, "pose": {"angle": 1, "place": place}}

"""Environments small enough to follow by hand."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Counting(gym.Env[Floats, Floats]):
    """Observes [seed's offset + steps so far]; the reward is the action as the env got it.

    It terminates after ``end`` steps and truncates itself after ``cut`` steps.
    """

    def __init__(self, end: int = 1000, cut: int = 1000) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Box(-2.0, 6.0, (1,), np.float32)
        self._end, self._cut = end, cut
        self._obs = np.zeros(1, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._obs[0] = self.np_random.integers(1000) / 1024
        return self._obs, {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        self._obs += 1  # the same array every time: whoever keeps it must copy
        return (
            self._obs,
            float(action[0]),
            self._steps >= self._end,
            self._steps >= self._cut,
            {},
        )

    def save_state(self) -> dict[str, npt.NDArray[Any]]:
        return {"obs": self._obs.copy(), "steps": np.array(self._steps)}

    def load_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        self._obs = state["obs"]
        self._steps = int(state["steps"])


class Bare(Counting):
    """Keeps the old API: reset gives the observation alone, here one of two elements."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self._obs = np.zeros(2, np.float32)

    def reset(self, **_: Any) -> Any:
        return self._obs


class FourTuple(Counting):
    """Keeps the old API: step gives one ``done``."""

    def step(self, action: Floats) -> Any:
        obs, reward, end, cut, info = super().step(action)
        return obs, reward, end or cut, info


class Starting(gym.Env[Any, Any]):
    """Counts observations from 5 and takes actions from 7, or from 7 and from -1, on."""

    def __init__(self, many: bool = False) -> None:
        self.observation_space = gym.spaces.Discrete(3, start=5)
        one = gym.spaces.Discrete(2, start=7)
        self.action_space = gym.spaces.MultiDiscrete([2, 3], start=[7, -1]) if many else one
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return 5, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self._steps += 1
        return 5 + self._steps % 3, float(np.sum(action)), False, self._steps > 9, {}

    def save_state(self) -> dict[str, Any]:
        return {"steps": np.array(self._steps)}

    def load_state(self, state: dict[str, Any]) -> None:
        self._steps = int(state["steps"])


class Structured(gym.Env[Any, Any]):
    """Observes a dictionary, of which an argument says the size; an episode is ten steps."""

    def __init__(self, *, size: int) -> None:
        self.observation_space = gym.spaces.Dict(
            {"side": gym.spaces.Discrete(2), "place": gym.spaces.Box(0.0, 1.0, (size,))}
        )
        self.action_space = gym.spaces.Discrete(2)
        self._place = np.zeros(size, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return {"side": 0, "place": self._place}, {}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return {"side": int(action), "place": self._place}, 1.0, self._steps >= 10, False, {}


class Drawing(Counting):
    """Its reward is drawn anew in every step."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        obs, _, end, cut, info = super().step(action)
        return obs, self.np_random.random(), end, cut, info


class Tiny(Counting):
    """Its reward is a denormal number, which a processor may be told to take for 0."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        obs, _, end, cut, info = super().step(action)
        return obs, 1e-40, end, cut, info


class Clinging(Counting):
    """Does not close."""

    def close(self) -> None:
        time.sleep(300)


class Unsound(Counting):
    """Gives NaN as observation or as reward at its third step."""

    def __init__(self, field: str) -> None:
        super().__init__()
        self._field = field

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        obs, reward, end, cut, info = super().step(action)
        if self._steps == 3:
            if self._field == "observation":
                obs[0] = np.nan
            else:
                reward = float("inf")
        return obs, reward, end, cut, info


class Dozing(Counting):
    """Takes 50 ms for a step, and no processor."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        time.sleep(0.05)
        return super().step(action)


class WithObservation(Counting):
    """Only its observation space matters."""

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        self.observation_space = space


class WithAction(Counting):
    """Only its action space matters."""

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        self.action_space = space

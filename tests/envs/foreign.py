"""Environments for another Python, which has numpy and nothing else: spaces of their own, old gym.

``described`` in the server goes by the names of classes and fields, as these have them.
"""

import os
import signal
import sys
from typing import Any

import numpy as np


class Box:
    """As gym's."""

    def __init__(
        self, low: float, high: float, shape: "tuple[int, ...]", dtype: str = "float32"
    ) -> None:
        self.low = np.full(shape, low, dtype)
        self.high = np.full(shape, high, dtype)
        self.shape, self.dtype = shape, np.dtype(dtype)


class Discrete:
    """As gym's."""

    def __init__(self, n: int) -> None:
        self.n, self.shape, self.dtype = n, (), np.dtype("int64")


class Text:
    """What no agent reads."""

    def __repr__(self) -> str:
        return "Text(1, 8)"


class Old:
    """gym's interface before 0.26: observes its seed's last digit and its steps so far.

    It ends after ``end`` steps, or is cut after ``cut`` steps as gym's TimeLimit tells it. The
    reward is the action as the environment got it.
    """

    def __init__(self, end: int = 7, cut: int = 100, wide: int = 2, fault: str = "") -> None:
        self.observation_space: Any = Box(-1e6, 1e6, (wide,))
        self.action_space: Any = Box(-2.0, 6.0, (1,))
        if fault == "space":
            self.observation_space = Text()
        self._end, self._cut, self._wide, self._fault = end, cut, wide, fault
        self._digit = self._steps = 0

    def seed(self, seed: int) -> None:
        self._digit = seed % 10

    def reset(self) -> Any:
        self._steps = 0
        return self._observe()

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == 3:
            self._fail()
        done = self._steps >= min(self._end, self._cut)
        info = {"TimeLimit.truncated": True} if done and self._steps < self._end else {}
        return self._observe(), float(action[0]), done, info

    def close(self) -> None:
        pass

    def _observe(self) -> Any:
        obs = np.zeros(self._wide, np.float32)
        obs[:2] = self._digit, self._steps
        if self._steps == 3 and self._fault == "nan":
            obs[0] = np.nan
        return obs[:1] if self._steps == 3 and self._fault == "shape" else obs

    def _fail(self) -> None:
        if self._fault == "raise":
            raise RuntimeError("the simulator lost its mind")
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


class Still:
    """A batch's worth of numbers that cost nothing, for measuring what lies beside them."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Box(-1.0, 1.0, (60,)), Discrete(2)
        self._obs = np.zeros(60, np.float32)

    def seed(self, seed: int) -> None:
        pass

    def reset(self) -> Any:
        return self._obs

    def step(self, action: Any) -> Any:
        return self._obs, 0.0, False, {}

    def close(self) -> None:
        pass


class Importing(Old):
    """Wants what only the other Python has."""

    def __init__(self) -> None:
        super().__init__()
        self.version = sys.version_info[:2]
        import torch  # noqa: F401

"""A wrapper that makes an environment fail in a chosen way. It can't save its state."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

Fault = Literal["none", "segfault", "kill", "raise", "nan", "hang_up"]


class Faulty(gym.Wrapper[Any, Any, Any, Any]):
    """Fails at its ``at``-th step; with a ``once`` file, only as long as there is none."""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        fault: Fault = "none",
        at: int = 20,
        once: str = "",
        slow: float = 0.0,
    ) -> None:
        super().__init__(env)
        self._fault, self._at, self._once, self._slow = fault, at, once, slow
        self._steps = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, end, cut, info = self.env.step(action)
        self._steps += 1
        time.sleep(self._slow)
        if self._steps == self._at and self._ripe():
            if self._fault == "segfault":
                ctypes.string_at(0)
            elif self._fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self._fault == "raise":
                raise RuntimeError("the simulator lost its mind")
            elif self._fault == "nan":
                reward = float("nan")
            elif self._fault == "hang_up":
                _leave_a_grandchild()
                os.kill(os.getpid(), signal.SIGKILL)
        return obs, reward, end, cut, info

    def _ripe(self) -> bool:
        if not self._once:
            return True
        if Path(self._once).exists():
            return False
        Path(self._once).touch()
        return True


def _leave_a_grandchild() -> None:
    """A process like a simulator's worker: it inherits every open file."""
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)

"""Environments that fail in a chosen way, or take their time."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

Array = npt.NDArray[Any]
Fault = Literal["none", "segfault", "kill", "orphan", "hang", "raise", "nan"]


class Slow(CartPoleEnv):
    """A CartPole of at most 1700 steps a second on any machine, which can save its state."""

    def __init__(self, pause: float = 0.0006, **more: Any) -> None:
        """Args:
        pause: seconds that a step takes at least.
        more: what CartPole takes.
        """
        super().__init__(**more)
        self._pause = pause

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._pause)
        step: Any = super().step
        obs, reward, end, cut, info = step(action)
        return obs, reward, end, cut, info

    def save_state(self) -> dict[str, Array]:
        return {"state": np.asarray(self.state)}

    def load_state(self, state: dict[str, Array]) -> None:
        self.state = state["state"]


def stateless(num_envs: int) -> SyncVectorEnv:
    """As slow, of at most 200 steps an episode; their state can't be saved."""
    return SyncVectorEnv(
        [lambda: gym.wrappers.TimeLimit(Slow(), 200)] * num_envs,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )


class Faulty(gym.Wrapper[Any, Any, Any, Any]):
    """Fails from its ``at``-th step on, of all that it has taken in any episode.

    With a ``tally``, a file that counts the faults, it fails ``times`` times and no more.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        fault: Fault = "none",
        at: int = 20,
        tally: str = "",
        times: int = 1,
    ) -> None:
        super().__init__(env)
        self._fault, self._at = fault, at
        self._tally = Path(tally) if tally else None
        self._times = times
        self._steps = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, end, cut, info = self.env.step(action)
        self._steps += 1
        if self._steps >= self._at and self._is_due():
            reward = _fail(self._fault, reward, self._tally)
        return obs, reward, end, cut, info

    def _is_due(self) -> bool:
        if self._tally is None:
            return True
        with self._tally.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # other processes come to their at-th step together
            file.seek(0)
            before = len(file.readlines())
            if before < self._times:
                file.write(f"{self._fault}\n")
        return before < self._times


def _fail(fault: Fault, reward: Any, tally: Path | None) -> Any:
    if fault == "segfault":
        ctypes.string_at(0)
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "orphan":
        _leave_a_worker(tally)
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "hang":
        _leave_a_worker(tally)
        ctypes.PyDLL(None).sleep(300)  # unlike CDLL, it keeps the interpreter's lock
    elif fault == "raise":
        raise RuntimeError("the simulator lost its mind")
    return float("nan") if fault == "nan" else reward


def _leave_a_worker(tally: Path | None) -> None:
    """A process such as a simulator starts: it holds every file that this one has open."""
    pid = os.fork()
    if pid == 0:
        time.sleep(300)
        os._exit(0)
    if tally is not None:
        new = tally.with_suffix(".new")
        new.write_text(str(pid))
        new.rename(tally.with_suffix(".pid"))  # whoever sees it can read it

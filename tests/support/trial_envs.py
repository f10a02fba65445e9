"""Environments that hang or end their process, at a place of one's choice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

Where = Literal["make", "reset", "step"]
How = Literal["hang", "exit", "segfault", "abort", "slow", "print"]


class Bad(CartPoleEnv):
    """A CartPole that fails; with ``worker``, a file, it has a process of its own by then."""

    def __init__(self, where: Where = "step", how: How = "hang", worker: str = "") -> None:
        super().__init__()
        self._where, self._how, self._worker = where, how, worker
        self._fail("make")

    def reset(self, **given: Any) -> Any:
        self._fail("reset")
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        self._fail("step")
        step: Any = super().step
        return step(action)

    def _fail(self, where: Where) -> None:
        if where != self._where:
            return
        if self._worker:
            process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(self._worker).write_text(str(process.pid))
        if self._how == "slow":
            time.sleep(0.3)
        if self._how == "hang":
            print("waiting for the licence server")
            while True:
                time.sleep(60)
        if self._how == "exit":
            print("no licence", file=sys.stderr)
            os._exit(3)
        if self._how == "abort":
            os.abort()
        if self._how == "segfault":
            os.kill(os.getpid(), 11)

"""Environments that fail on one rank of a pod alone."""

from __future__ import annotations

import os
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv


class OnRankOne(CartPoleEnv):
    """CartPole, which breaks after 100 steps on rank 1."""

    _steps = 0

    def step(self, action: Any) -> Any:
        """Step, or break."""
        self._steps += 1
        if self._steps == 100 and os.environ.get("RANK") == "1":
            raise RuntimeError("this rank's simulator broke")
        return super().step(action)  # type: ignore[no-untyped-call]

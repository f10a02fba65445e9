"""Evaluators that do as a test wants."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcpod.agents.base import Acting
from hpcpod.pod.evaluator import PanelEvaluator, Stopped, never

GATES = "HPCPOD_TEST_GATES"
"""Environment variable: the folder of the gates."""


class Gated(PanelEvaluator):
    """Waits before a round's panel while there is a file of the round's number."""

    def evaluate(
        self,
        agent: Acting,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        _seed, kind, number = panel
        gate = Path(os.environ[GATES]) / str(number)
        while kind == "panel" and gate.exists():
            if should_stop():
                raise Stopped
            time.sleep(0.02)
        return super().evaluate(agent, *panel, episodes=episodes, should_stop=should_stop)


GATED: dict[str, Any] = {"evaluator": "tests.support.evaluators:Gated"}
"""Of the section ``pod``."""

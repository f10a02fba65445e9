"""The evaluator of a gate: the same episodes at every evaluation of every run, and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from gates.rows import PANEL
from hpcpod.agents.base import Acting
from hpcpod.pod.evaluator import PanelEvaluator, never


class FixedPanel(PanelEvaluator):
    """Scores on the episodes that ``PANEL`` names, whatever panel is asked for."""

    spent: list[float] = []  # noqa: RUF012 (a run is one process)
    """Seconds that each evaluation of this process took."""

    def evaluate(
        self,
        agent: Acting,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        """See ``PanelEvaluator``."""
        del panel
        began = time.monotonic()
        returns = super().evaluate(agent, PANEL, episodes=episodes, should_stop=should_stop)
        self.spent.append(time.monotonic() - began)
        return returns

"""The learner turns what the worker collected into better parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

from hpcpod.agents.base import Agent, Buffer, Metrics
from hpcpod.errors import Diverged, UnusablePlugin


class Learner:
    """One agent's updates."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def learn(self, buffer: Buffer) -> Metrics:
        """Update the agent once from the buffer.

        Raises:
            Diverged: a metric of the update is not finite.
            UnusablePlugin: it returned no metrics.
        """
        metrics = self._agent.update(buffer)
        if not isinstance(metrics, Mapping):
            self._refuse(f"returned {metrics!r:.100}")
        for name, value in metrics.items():
            if not hasattr(value, "__float__"):
                self._refuse(f"returned {name!r} as {value!r:.100}")
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value} after an update")
        return metrics

    def _refuse(self, found: str) -> NoReturn:
        raise UnusablePlugin(
            f"update of {type(self._agent).__name__} {found}: expected its metrics, a mapping of"
            " names to finite numbers, which may be empty: {}"
        )

"""The learner turns what the worker collected into better parameters."""

from __future__ import annotations

import math

from hpcpod.agents.base import Agent, Buffer, Metrics
from hpcpod.errors import Diverged


class Learner:
    """One agent's updates."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def learn(self, buffer: Buffer) -> Metrics:
        """Update the agent once from the buffer.

        Raises:
            Diverged: a metric of the update is not finite.
        """
        metrics = self._agent.update(buffer)
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value} after an update")
        return metrics

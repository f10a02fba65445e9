"""The span of a round in a run's budget, which schedules follow step by step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A round's, or that of a training without rounds."""

    begins: float
    """Share of the budget that is spent at its first step, in [0, 1]."""
    ends: float
    """After its last one."""
    steps: int
    """Environment steps of one rank in it."""

    def at(self, left: int) -> float:
        """The share that is spent when ``left`` of the steps are still to be done."""
        done = 1.0 - min(self.steps, left) / self.steps
        return self.begins + done * (self.ends - self.begins)

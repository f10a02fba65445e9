"""Schedules of hyperparameters: by the share of a run's budget that is spent, or by steps.

A schedule is the run's: a copy that is made at four fifths of it goes on at four fifths. None
comes to an end from which nothing would be learned any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.agents import checks

BUDGET = 100_000
"""Steps of experience that stand for the budget of a run that nothing limits."""
LEAST = 0.01
"""Share of a learning rate, or of a clip, that is always left: who trains on must still learn."""


@dataclass(frozen=True)
class RateConfig:
    """The learning rate, and how it falls."""

    learning_rate: float = 1e-3
    """Step size of Adam."""
    anneal: bool = False
    """Lower the learning rate linearly, also in copies, while the run's budget is spent: the one of
    ``stop.rounds``, ``stop.env_steps`` and ``stop.minutes`` of which most is spent, or the steps
    of ``hpcpod.train``. Where ``stop.minutes`` alone limit a run, it stays in the first rounds, for
    their length is unknown. If nothing but a target limits a run, 100,000 steps of
    experience stand for its budget. See ``anneal_to``."""
    anneal_steps: int = 0
    """Lower it so within that many environment steps of experience instead, those of a copy's
    ancestors included; 0: see ``anneal``."""
    anneal_to: float = 0.0
    """Share of the learning rate that is left at the end, in [0, 1]. Below 0.01 it is 0.01: a pod
    that trains on, or is copied, still learns."""

    def __post_init__(self) -> None:
        checks.positive("learning_rate", self.learning_rate)
        checks.at_least("anneal_steps", self.anneal_steps, 0)
        checks.fraction("anneal_to", self.anneal_to)


class Clock:
    """The progress of the run, as an agent last heard of it."""

    def __init__(self) -> None:
        self.progress: float | None = None
        """Share of the run's budget that is spent, in [0, 1]; None: unknown."""

    def share(self, done: int, steps: int = 0, fraction: float = 1.0, begun: float = 0.0) -> float:
        """Share of a schedule that is over, in [0, 1].

        Args:
            done: environment steps of the agent's experience.
            steps: that the schedule takes; 0: it takes a part of the run's budget.
            fraction: that part, in [0, 1], of what was left when the schedule began.
            begun: share of the run's budget that was spent then.
        """
        if steps:
            return min(1.0, done / steps)
        # Not by a lineage's steps: a copy inherits them, and was at each schedule's end.
        spent = done / BUDGET if self.progress is None else self.progress
        lasts = fraction * (1.0 - begun)
        return min(1.0, max(0.0, spent - begun) / lasts) if lasts else 1.0

    def rate(self, config: RateConfig, done: int) -> float:
        """The learning rate now, after ``done`` environment steps of experience."""
        if not (config.anneal or config.anneal_steps):
            return config.learning_rate
        share = self.share(done, config.anneal_steps)
        return config.learning_rate * falling(share, config.anneal_to)


def falling(share: float, to: float = 0.0) -> float:
    """A factor that falls linearly from 1 to ``to``, or to ``LEAST`` if that is more."""
    # a rate of 0 froze a pod, and its copies, for ever
    return 1.0 - (1.0 - max(to, LEAST)) * share

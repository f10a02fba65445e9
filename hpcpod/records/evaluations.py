"""Evaluations of a pod, and what is kept of them once their checkpoints are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcpod.records.checkpoints import Checkpoint

SCORE_ERROR = "score_error"
"""Metric of an evaluation whose returns stand for a score with this error, and not for seeds."""
SCORE_EPISODES = "score_episodes"
"""Metric of such an evaluation: the episodes that its program tells, 1 where it tells no error."""


@dataclass(frozen=True)
class Milestone:
    """An evaluation that is kept for comparisons alone: its checkpoint is not."""

    round: int
    returns: tuple[float, ...]
    cost: float
    """Slot-seconds that it took to get there, those of the pod's ancestors included."""


@dataclass(frozen=True)
class Motion:
    """The movement of a pod's panel means from round to round, and the certainty of each."""

    steps: int = 0
    """Differences of successive means."""
    squares: float = 0.0
    """The sum of their squares."""
    panels: int = 0
    noise: float = 0.0
    """The sum of the squared standard errors of these panels' means."""


@dataclass(frozen=True)
class Evaluation:
    """The result of a pod at the end of a round."""

    round: int
    returns: tuple[float, ...]
    checkpoint: Checkpoint
    metrics: Mapping[str, float] = field(default_factory=dict)
    cost: float = 0.0
    """Slot-seconds that it took to get there, those of the pod's ancestors included."""
    evaluate_seconds: float = 0.0
    """Of these, the evaluation itself."""
    estimate: float | None = None
    """Its mean return, shrunk towards the means of the rounds before and after it: what it ranks
    by. None of a board from before there was one."""

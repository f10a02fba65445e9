"""The leaderboard as users see it: each row with an interval that allows for the choice."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.records.records import Board, Checkpoint, PodState
from hpcpod.run.text import many
from hpcpod.tournament.statistics import mean
from hpcpod.tournament.stopping import allowed


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard: the evaluation by which a pod ranks, and its last one."""

    pod: str
    """The pod's name."""
    algorithm: str
    """The name of its algorithm."""
    round: int
    """The round of that evaluation."""
    mean: float
    """Of the returns of that evaluation, which is the pod's best."""
    low: float
    """Lower end of a 95 % interval that allows for ``candidates``."""
    high: float
    """Upper end of it."""
    candidates: int
    """Evaluations of the run, among which any could have become this row."""
    episodes: int
    """Episodes of that evaluation."""
    estimate: float
    """The key of the rows' order: ``mean``, shrunk towards the means of the pod's rounds before and
    after it."""
    last: float | None
    """Mean return of the pod's last evaluation; None if it has none of its own any more."""
    origin: str
    """The pod's descent: ``control``, ``fresh``, ``copy of`` another, ``from`` another run's or
    ``taught by`` it."""
    fate: str
    """``winner``, or what has become of the pod."""
    checkpoint: Checkpoint
    """The policy of that evaluation; in a table the name of its blob."""


def rows(board: Board, most: int | None = None) -> tuple[Row, ...]:
    """The first ``most`` rows of the leaderboard, best first; None: all."""
    found = []
    for entry in board.entries[:most]:
        pod = board.pods[entry.pod]
        # The best of many is mostly a lucky one: a plain interval held the truth in 0 of 40 runs.
        low, high, candidates = allowed(board, entry)
        last = mean(pod.history[-1].returns) if pod.history else None
        # Not by a lower bound: a policy that never succeeds has a narrow interval, and would lead.
        estimate = entry.mean if entry.estimate is None else entry.estimate
        fate = "winner" if entry.pod == board.winner else pod.fate
        found.append(
            Row(
                entry.pod, entry.algorithm, entry.round, entry.mean, low, high, candidates,
                entry.episodes, estimate, last, origin(pod), fate, entry.checkpoint,
            )
        )  # fmt: skip
    return tuple(found)


def origin(pod: PodState) -> str:
    """The descent of a pod: ``control``, ``fresh``, ``copy of`` another, ``from`` another run's."""
    if pod.origin is not None:
        by = "taught by" if pod.origin.taught_steps else "from"
        return f"{by} {pod.origin.pod} of {pod.origin.run}"
    if pod.parent is not None:
        return f"copy of {pod.parent}"
    return "control" if pod.control else "fresh"


def ranking(board: Board) -> str:
    """The order of the leaderboard, in a sentence or two."""
    if not board.entries:  # else it spoke of a choice among 0 evaluations
        return "Nobody ranks yet: no round was reported."
    scores = [s for s in board.confirmed if s.passed or (s.purpose != "confirm" and s.episodes > 0)]
    won = " The winner is so by fresh episodes." if board.winner is not None and scores else ""
    return (
        "Ranked by an estimate of the mean return: that of the panel in the row, shrunk towards"
        " those of the pod's rounds before and after. [95 %] allows for the choice among"
        f" {many(board.rounds, 'evaluation')}.{won}"
    )

"""Scores of policy snapshots as users see them: a row for each of their times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Board
from hpcpod.run.text import many
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.policy_snapshots import being_scored, in_order, policies
from hpcpod.tournament.statistics import mean, sd

MANY = 100
"""More times than a curve has points to show."""


@dataclass(frozen=True)
class SnapshotScore:
    """The policy that led the leaderboard at one time, and its score on fresh seeds."""

    seconds: float
    """Since the first slot began to work, pauses included."""
    env_steps: int
    """Environment steps that the whole population had reported by then."""
    pod: str
    """The pod that led then."""
    algorithm: str
    """The name of its algorithm."""
    round: int
    """Its round that ended in this policy."""
    mean: float | None
    """Mean return on fresh seeds; None until it is scored."""
    sd: float | None
    """Standard deviation of a return (n - 1)."""
    error: float | None
    """Standard error of the mean: sd / sqrt(episodes)."""
    episodes: int
    """Episodes of its score."""
    returns: tuple[float, ...]
    """In the order of the seeds, which all snapshots of the run have in common."""
    failure: str
    """Empty, or why it could not be scored."""
    checkpoint: Path
    """A file that ``load_policy`` reads."""


def snapshot_scores(folder: RunFolder, board: Board) -> tuple[SnapshotScore, ...]:
    """A run's snapshots, oldest first; of the times before the first report there are none."""
    seconds, found = folder.resolved.config.snapshots.seconds or math.nan, []
    for row in in_order(board):
        spread = sd(row.returns) if row.returns else None
        blob = blob_path(folder.path / "blobs", row.checkpoint.core)
        found += [
            SnapshotScore(
                number * seconds, row.env_steps, row.pod, board.pods[row.pod].algorithm, row.round,
                mean(row.returns) if row.returns else None, spread,
                None if spread is None else spread / math.sqrt(len(row.returns)),
                len(row.returns), row.returns, row.failure, blob,
            )
            for number in range(row.number, row.number + row.times)
        ]  # fmt: skip
    return tuple(found)


def scoring(board: Board) -> str:
    """The scores on fresh seeds that a run waits for after its limit or its target.

    Returns:
        A few words; empty if it waits for none.
    """
    if board.phase != "finals":
        return ""
    rows = policies(board).values()
    if being_scored(board.rescores):
        return f"scoring snapshots: {sum(row.settled for row in rows)} of {len(rows)} done"
    waits, left = _final_words(board), sum(not row.settled for row in rows)
    return f"{waits}, then {many(left, 'snapshot')}" if left else waits


def _final_words(board: Board) -> str:
    """The stage of a final evaluation."""
    finals, left = board.finals, len(board.rescores)
    if finals.stage == "confirm":
        return f"scoring {many(len(finals.candidates), 'candidate')} on common seeds, {left} left"
    if finals.stage == "report":
        return "scoring the policy that is delivered, on seeds that decide nothing"
    return f"scoring {many(left, 'finalist')}"


def caption(scores: Sequence[SnapshotScore], over: bool) -> str:
    """The meaning of a table of snapshots, in a sentence or two.

    Args:
        scores: the rows.
        over: the run has ended, and scores no more.
    """
    if not scores:
        return "No snapshot was taken yet: snapshots.seconds says when, and none before a report."
    left = sum(score.mean is None for score in scores)
    waits = f" {left} of {len(scores)} have no score{'' if over else ': the end brings it'}."
    waits = waits if left else ""
    return (
        "The leader's policy at each time, scored after the run on fresh seeds that all have in"
        f" common. 'sd' is of one return, 'error' of their mean.{waits}"
    )


def odd_times(config: RunConfig) -> Iterator[str]:
    """Remarks on times at which no snapshot, or a great many, would be taken."""
    every, minutes = config.snapshots.seconds, config.stop.minutes
    if every is None or minutes is None:
        return
    if every > 60 * minutes:
        yield (
            f"snapshots.seconds: the run ends after {60 * minutes:g} s (stop.minutes), and the"
            f" first snapshot would be taken after {every:g} s; take less"
        )
    elif (most := int(60 * minutes // every)) > MANY:
        yield (
            f"snapshots.seconds: up to {most:,} policies would be scored on"
            f" {config.snapshots.episodes} episodes each before the run has finished; take more"
        )

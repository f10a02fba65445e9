"""The history of a run: every report of it as a row, by the files alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from hpcpod.records.records import Board, PodState, Report
from hpcpod.storage.checksummed import MOST
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.settle import failure
from hpcpod.tournament.statistics import mean, measured, sd

Purpose = Literal["round", "final", "candidate", "report", "confirm", "snapshot", "look"]

_ORDER = re.compile(
    r"(?:(?P<round>\d+)|(?P<purpose>final|candidate|report|confirm|snapshot|look)(?P<number>\d+))-(\d+)"
)
"""The name of an order behind its pod's name and a hyphen."""


@dataclass(frozen=True)
class Result:
    """One report: a round that a pod has trained, or a score on fresh seeds, or a failure."""

    order: str
    """The order that it answers, such as ``p0003-00012-1``."""
    pod: str
    """The pod's name."""
    algorithm: str
    """The name of its algorithm."""
    round: int
    """The pod's round that was trained, or whose checkpoint was scored."""
    attempt: int
    """The number of the try at this order, from 1."""
    purpose: Purpose
    """``round``; or what a score on fresh seeds was for: ``confirm`` (an attempt at the target),
    ``snapshot``, or of the final evaluation ``final`` (a batch of the select set), ``candidate``
    (the confirm set) or ``report`` (the report set); or of a close test of two pods: ``look``."""
    slot: str
    """The slot that reported it."""
    ended: float
    """Unix time at which it was reported, in seconds, by the disk's clock: that of its file."""
    seconds: float | None
    """The same since the first slot began to work; None if none has."""
    env_steps: int
    """Environment steps of experience in the checkpoint, its ancestors' included; 0 if it failed
    before there was one."""
    trained_steps: int
    """Environment steps trained for this order."""
    total_steps: int
    """Environment steps that the whole population had trained by then, this order's included."""
    wall_seconds: float
    """Of the order, in the processes that trained and scored it, from its last start on."""
    train_seconds: float
    """Seconds of collecting and learning, also before an interruption."""
    evaluate_seconds: float
    """Seconds of its panel, or of its fresh seeds."""
    cost: float
    """Slot-seconds that it took: the longer of ``wall_seconds`` and the sum of the other two."""
    returns: tuple[float, ...]
    """Return of each episode, in the order of the seeds."""
    mean: float | None
    """Mean return; None without a score."""
    sd: float | None
    """Standard deviation of one return (n - 1)."""
    low: float | None
    """Lower end of the 95 % interval of the mean (Student's t), as if it had not been chosen."""
    high: float | None
    """Upper end of it."""
    metrics: Mapping[str, float]
    """Numbers of the learner at the end of the round; they need not be finite."""
    failure: str
    """Empty, or why it failed, in one sentence."""
    failure_kind: str
    """Empty, or ``crash``, ``raised``, ``memory``, ``diverged`` or ``corrupt``."""
    counted: bool
    """True if the board has taken it in. False of one that is not merged yet, and of one that came
    when its order was given out again, or its pod was dead."""


def results(folder: RunFolder, board: Board) -> tuple[Result, ...]:
    """Every report of a run up to now, oldest first.

    Damaged reports are passed over, and so are those that answer no order of this run.

    Args:
        folder: of the run; it is only read.
        board: says what has counted.
    """
    found = [row for each in folder.reports.all() if (row := _row(*each, board)) is not None]
    rows = sorted(found, key=lambda row: (row.ended, row.order))
    pods: dict[str, list[Result]] = {}
    for row in rows:
        pods.setdefault(row.pod, []).append(row)
    counted = {name for pod, ours in pods.items() for name in _counted(board, pod, ours)}
    rounds = [row for row in rows if row.purpose == "round" and row.env_steps]
    steps = {(row.pod, row.round): row.env_steps for row in rounds}
    total, whole = 0, []
    for row in rows:
        counts = row.order in counted
        total += row.trained_steps if counts else 0
        reached = row.env_steps
        if row.purpose != "round":  # it has no checkpoint of its own
            reached = steps.get((row.pod, row.round), 0)
        whole.append(replace(row, counted=counts, total_steps=total, env_steps=reached))
    return tuple(whole)


def _row(report: Report, mtime: float, board: Board) -> Result | None:
    """A report as a row that counts for nothing yet; None if it is of no order of this run."""
    pod = board.pods.get(report.pod)
    name = _ORDER.fullmatch(report.order.removeprefix(f"{report.pod}-"))
    if pod is None or name is None or int(name[4]) != report.attempt:
        return None
    if name["round"] is not None and int(name["round"]) != report.round:
        return None
    kind, why = failure(report)
    if not kind and name["round"] is not None and report.checkpoint is None:
        kind, why = "crash", "no checkpoint was reported"
    returns = report.returns
    scored = not kind and len(returns) > 1
    low, high, episodes = measured(returns, report.metrics) if scored else (None, None, 0)
    if episodes == 1:  # a score without an error
        low = high = None
    return Result(
        order=report.order, pod=pod.id, algorithm=pod.algorithm, round=report.round,
        attempt=report.attempt, purpose=cast(Purpose, name["purpose"] or "round"),
        slot=report.slot, ended=mtime,
        seconds=None if board.began is None else mtime - board.began,
        env_steps=0 if report.checkpoint is None else report.checkpoint.env_steps,
        trained_steps=report.trained_steps, total_steps=0,
        wall_seconds=_sound(report.wall_seconds), train_seconds=_sound(report.train_seconds),
        evaluate_seconds=_sound(report.evaluate_seconds), cost=_sound(report.cost),
        returns=returns, mean=mean(returns) if scored else None,
        sd=sd(returns) if episodes > 1 else None, low=low, high=high, metrics=report.metrics,
        failure=why, failure_kind=kind, counted=False,
    )  # fmt: skip


def _sound(seconds: float) -> float:
    """A time span in seconds; 0 for what is none: another user may have written it."""
    return seconds if math.isfinite(seconds) and 0 <= seconds < MOST else 0.0


def _counted(board: Board, pod: str, found: Iterable[Result]) -> Iterator[str]:
    """The orders of one pod whose reports have counted, by what is known of its others."""
    rounds: list[Result] = []
    scores: list[Result] = []
    for row in sorted(found, key=lambda row: (row.attempt, row.round, row.order)):
        (rounds if row.purpose == "round" else scores).append(row)
    yield from _counted_rounds(board.pods[pod], rounds)
    yield from _counted_scores(board, scores)


def _counted_rounds(pod: PodState, rounds: list[Result]) -> Iterator[str]:
    """Of a pod's rounds, in the order of their births, those that have counted.

    One has if the pod's next order that is known is of a later round: an attempt that failed or
    was lost is followed by one at its round again. After the last one the pod's own books tell. A
    failure that came when its order was given out again looks like one that has counted.
    """
    steps = 0
    for row, after in zip(rounds, [*rounds, None][1:], strict=True):
        following = after or pod.birth
        if row.failure_kind:
            counts = following is not None and following.attempt > row.attempt
            last = f"round {row.round}, attempt {row.attempt} on "
            counts = counts or pod.failure.startswith(last)
        elif following is not None:
            counts = following.round > row.round
        else:
            counts = steps + row.trained_steps <= pod.trained_steps
        if counts:
            steps += 0 if row.failure_kind else row.trained_steps
            yield row.order


def _counted_scores(board: Board, scores: list[Result]) -> Iterator[str]:
    """Of a pod's scores those that have counted: of each set of fresh seeds the last attempt."""
    every = (*(score for end in board.endings for score in end.confirmed), *board.confirmed)
    settled = {f"{score.pod}-{score.purpose}{score.number}" for score in every}
    kept = board.snapshots.values()
    settled |= {f"{each.pod}-snapshot{each.number}" for each in kept if each.settled}
    finals = board.finals
    for pod, played in finals.played.items():
        settled |= {f"{pod}-final{number}" for number in finals.batches[:played]}
    settled |= {f"{pod}-final{number}" for pod in finals.given_up for number in finals.batches}
    named = [(row.order.rpartition("-")[0], row) for row in scores]
    last = {name: row.attempt for name, row in named}
    open_now = {order.id.rpartition("-")[0]: order.attempt for order in board.rescores.values()}
    for name, row in named:
        again = max(last[name], open_now.get(name, 0)) > row.attempt
        if (again and row.failure_kind) or (
            not again and (name in settled or row.purpose == "look")
        ):
            yield row.order

"""The barrier of scheme ``generational``: pods wait for each other, and all are judged at once.

A pod that has trained the barrier's round keeps its next order and gets no slot for it, as one that
rests. The barrier opens when all that it awaits are there: living pods with a place that have
trained the round before it. The others are not awaited: those that rest, and those that lack more
than one round (after a rest, from scratch in the place of a dead pod, or late at an earlier
barrier). They train until they have caught up, and each is judged by its own report.

Nor does a barrier wait for ever. Once ``population.quorum`` of these pods are there, it opens when
``population.deadline`` times as long has passed as they took. So neither a slow pod nor a slot that
hangs holds up the rest for longer, and a pod that comes late is judged late.
"""

from __future__ import annotations

from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.barrier import Barrier
from hpcpod.records.records import Birth, Board, PodState, Report
from hpcpod.tournament.priorities import unawaited


def first_barrier(config: RunConfig) -> Barrier:
    """The barrier of a run's first board."""
    return Barrier(round=1 if config.population.scheme == "generational" else 0)


def at_barrier(board: Board, pod: PodState) -> bool:
    """True if a living pod has trained the barrier's round: it is judged when that opens."""
    return 0 < board.barrier.round <= _experience(pod)


def awaited(board: Board) -> list[str]:
    """Pods for which the barrier waits, by name."""
    round_before = board.barrier.round - 1
    aside = unawaited(board)
    return [
        pod.id
        for pod in board.living
        if pod.id not in aside and pod.birth is not None and _experience(pod) == round_before
    ]


def goes_on(board: Board, birth: Birth) -> bool:
    """True if a pod that reports this round next goes on at once, unless it is replaced."""
    return birth.round < board.barrier.round or set(awaited(board)) <= {birth.pod}


def since(board: Board) -> float | None:
    """Unix time in seconds from which pods came to the barrier; None while no slot has begun."""
    return board.began if board.barrier.since is None else board.barrier.since


def deadline(board: Board, config: RunConfig) -> float | None:
    """Unix time in seconds at which the barrier opens though pods are missing; None while the
    quorum is missing, too."""
    met = board.barrier.met
    if met is None:
        return None
    begun = since(board)
    begun = met if begun is None else begun
    return begun + config.population.deadline * max(0.0, met - begun)


def resumed(board: Board, seconds: float) -> Board:
    """The board of an extended run that goes on after so many seconds in which no slot worked: they
    count neither for ``stop.minutes`` nor for its barrier's deadline."""
    barrier, begun = board.barrier, since(board)
    # a run that was extended after a day waited six hours for a slot that hung
    barrier = replace(
        barrier,
        since=None if begun is None else begun + seconds,
        met=None if barrier.met is None else barrier.met + seconds,
    )
    return replace(board, idle=board.idle + seconds, halted=None, barrier=barrier)


def checked(board: Board, config: RunConfig, now: float) -> Board:
    """The board with the time since which the quorum has been at the barrier.

    Args:
        board: after a merge.
        config: of the run.
        now: Unix time in seconds.
    """
    if not board.barrier.round or board.phase != "running":
        return board
    there, missing = len(_there(board)), len(awaited(board))
    share = config.population.quorum * (there + missing)
    enough = there > 0 and there >= share - 1e-9  # 0.55 of 20 is 11.000000000000002
    met = (now if board.barrier.met is None else board.barrier.met) if enough else None
    if met == board.barrier.met:
        return board
    return replace(board, barrier=replace(board.barrier, met=met))


def opens(board: Board, config: RunConfig, now: float) -> bool:
    """True if the barrier of a checked board opens now: all are there, or the quorum is and the
    deadline has passed."""
    met, end = board.barrier.met, deadline(board, config)
    if board.phase != "running" or met is None or end is None:
        return False
    return not awaited(board) or (now > met and now >= end)


def opened(board: Board, now: float) -> tuple[Board, dict[str, Report]]:
    """The board with the next barrier; and the last reports of the pods that were at this one, by
    order, as far as they are remembered."""
    there = [pod for pod in board.living if at_barrier(board, pod) and pod.history]
    reports = {report.order: report for report in map(_remembered, there)}
    following = Barrier(board.barrier.round + 1, since=now)
    return replace(board, barrier=following), dict(sorted(reports.items()))


def _there(board: Board) -> list[str]:
    aside = unawaited(board)
    return [pod.id for pod in board.living if pod.id not in aside and at_barrier(board, pod)]


def _experience(pod: PodState) -> int:
    """Rounds that a pod has trained, its ancestors' included."""
    if pod.birth is not None:
        return pod.birth.round - 1
    return pod.history[-1].round if pod.history else 0


def _remembered(pod: PodState) -> Report:
    """A pod's last report, of what the board keeps of it."""
    last = pod.history[-1]
    attempt = 1 if pod.birth is None else pod.birth.attempt
    return Report(
        f"{pod.id}-{last.round:05d}-{attempt}",
        pod.id,
        last.round,
        attempt,
        slot="",
        returns=last.returns,
        checkpoint=last.checkpoint,
        evaluate_seconds=last.evaluate_seconds,
        metrics=last.metrics,
    )

"""Reopening of a finished run: an extension gives it larger limits, and it goes on from its end.

What was decided stays: pods, leaderboard, genealogy, counters. The orders that the end took back
are given out again, each as another attempt, so that a slot of before can't answer them. Scores on
fresh seeds move into ``Board.endings``: the next end draws other seeds. Attempts at the target go
on counting, so that all of them together spend no more than ``stop.alpha``.
"""

from __future__ import annotations

from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Birth, Board, Confirmed, Ending, Extension, PodState
from hpcpod.tournament.budget import dated
from hpcpod.tournament.finals import renewed
from hpcpod.tournament.settle import as_dead, onward


def reopened(board: Board, config: RunConfig, extension: Extension) -> Board:
    """The board of a finished run that an extension lets go on.

    Pure, and the same for every process: time is the extension's own.

    Args:
        board: as it ended; one that goes on, since its newest generations were damaged, only
            takes note.
        config: of the run, the extension in it.
        extension: the first that the board does not know.
    """
    ended = board.phase != "running"
    ending = Ending(
        extension, board.stop_reason, board.stopped, board.winner, board.env_steps, board.rounds,
        board.confirmed if ended else (),
    )  # fmt: skip
    board = replace(board, endings=(*board.endings, ending))
    if not ended:
        return board
    halted = board.halted or board.stopped or extension.time
    going_on = replace(
        board,
        pods={name: _going_on(pod, config) for name, pod in board.pods.items()},
        phase="running",
        stop_reason=None,
        failure="",
        stopped=None,
        winner=None,
        rescores={},
        halted=None if board.began is None else halted,
        confirmed=_still_tried(board, extension),
        # hpcpod 0.1 played the first select set and wrote down no set; its reports are there still.
        finals=renewed(replace(board.finals, sets={"final": 1, **board.finals.sets})),
    )
    return dated(going_on, None, config, extension.time)


def _still_tried(board: Board, extension: Extension) -> tuple[Confirmed, ...]:
    """Checkpoints that have failed the target that still stands: none is tried twice."""
    if "target" in extension.limits:
        return ()
    return tuple(s for s in board.confirmed if s.purpose == "confirm" and not s.passed)


def _going_on(pod: PodState, config: RunConfig) -> PodState:
    """A living pod with the order that continues it."""
    if pod.fate != "alive" or pod.birth is not None:
        return pod
    birth = pod.withdrawn
    if birth is not None:
        return replace(pod, birth=replace(birth, attempt=birth.attempt + 1), withdrawn=None)
    first = Birth(pod.id, 1, 1, pod.algorithm, pod.hyperparameters, pod.seed)
    if pod.history:  # it has trained stop.rounds, or a version ended it that kept no order
        last = pod.history[-1]
        return replace(pod, birth=onward(first, last.round, last.checkpoint, config))
    if pod.cause != "fresh":
        return as_dead(pod, "its parent's checkpoint was not kept at the run's end", "given up")
    return replace(pod, birth=first)

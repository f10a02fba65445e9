"""Policy snapshots: taken while a run goes on, scored once its winner is decided.

A snapshot's time is a multiple of ``snapshots.seconds`` since the first slot began to work, by the
clock of ``stop.minutes``, pauses included. It holds the policy that led the last generation before
that time: what was reported by then and not merged yet does not count. No round is held up for it:
its blob is there already, and ``leaderboard.needed_checkpoints`` keeps it.

Scores come after the run, one for each policy, however long it has led.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.checkpoints import Checkpoint
from hpcpod.records.policy_snapshots import PolicySnapshot
from hpcpod.records.records import Board, Report, Rescore


def taken(board: Board, config: RunConfig, now: float) -> Board:
    """The board with its leader's policy for each time that has come since the last generation.

    Args:
        board: the latest generation, before anything new is merged into it.
        config: of the run.
        now: Unix time in seconds.
    """
    every = config.snapshots.seconds
    if every is None or board.began is None or board.phase != "running":
        return board
    due, number = int(board.elapsed(now) // every), board.snapshot_times + 1
    if due < number:
        return board
    rows = dict(board.snapshots)
    if board.entries:
        best = board.entries[0]
        row = PolicySnapshot(
            number, due + 1 - number, board.env_steps, best.pod, best.round,
            Checkpoint(best.checkpoint.core, best.checkpoint.env_steps),
        )  # fmt: skip
        # A run that was extended may have its score from its first end.
        old = policies(board).get(row.checkpoint, row)
        rows[str(number)] = replace(
            row, returns=old.returns, engine=old.engine, failure=old.failure
        )
    return replace(board, snapshots=rows, snapshot_times=due)


def in_order(board: Board) -> list[PolicySnapshot]:
    """The snapshots of a run, oldest first."""
    return sorted(board.snapshots.values(), key=lambda row: row.number)


def policies(board: Board) -> dict[Checkpoint, PolicySnapshot]:
    """The different policies among the snapshots, each with the first time at which it led."""
    found: dict[Checkpoint, PolicySnapshot] = {}
    for row in in_order(board):
        found.setdefault(row.checkpoint, row)
    return found


def to_score(board: Board) -> dict[str, Rescore]:
    """The orders that score the policies which have no score yet, by name."""
    found = {}
    for row in policies(board).values():
        if not row.settled:
            pod = board.pods[row.pod]
            found[f"{pod.id}-snapshot{row.number}"] = Rescore(
                "snapshot", row.number, pod.id, 1, pod.algorithm, pod.hyperparameters,
                row.checkpoint, row.round,
            )  # fmt: skip
    return found


def scored(board: Board, order: Rescore, report: Report, why: str) -> Mapping[str, PolicySnapshot]:
    """The board's snapshots, those of an order's policy with the score that was reported.

    Args:
        board: has the snapshots.
        order: of a policy.
        report: answers it.
        why: empty, or why there is no score.
    """
    returns = () if why else report.returns
    return {
        name: replace(row, returns=returns, engine=report.engine, failure=why)
        if row.checkpoint == order.checkpoint
        else row
        for name, row in board.snapshots.items()
    }


def being_scored(rescores: Mapping[str, Rescore]) -> bool:
    """True if the run has its winner, and only its snapshots are scored."""
    return any(order.purpose == "snapshot" for order in rescores.values())

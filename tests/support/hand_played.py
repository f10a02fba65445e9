"""A tournament that is played by hand: a test writes the reports that it wants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hpcpod.records.records import Birth, Board, Checkpoint, Order, Report
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules

START = 1_700_000_000.0
"""Unix time at which the first slot of such a run begins, in seconds."""


def birth_of(folder: RunFolder, pod: str) -> Birth:
    """The open birth of a pod."""
    found = read_board(folder).pods[pod].birth
    assert found is not None
    return found


def answer(
    folder: RunFolder, order: Order, returns: Sequence[float], seconds: float = 0.0, **fields: Any
) -> Report:
    """Publish a good report of an order, so many seconds after ``START``: 512 steps a round."""
    done = Report(
        order.id, order.pod, order.round, order.attempt, "s", tuple(returns)
    )  # fmt: skip
    if isinstance(order, Birth):
        core = folder.blobs.put({}, {"order": order.id})
        done = replace(done, checkpoint=Checkpoint(core, 512 * order.round), trained_steps=512)
    done = replace(done, **fields)
    publish(folder, done, START + seconds)
    return done


def publish(folder: RunFolder, report: Report, at: float) -> None:
    """Publish a report as if at this Unix time, in seconds."""
    folder.reports.publish(report)
    os.utime(sharded(folder.path / "reports", report.order, ".json"), (at, at))


def fail(folder: RunFolder, order: Order, why: str, seconds: float = 0.0, **fields: Any) -> Report:
    """Publish that an order has failed."""
    lost = {"checkpoint": None, "trained_steps": 0, "failure_kind": "crash", "failure": why}
    return answer(folder, order, (), seconds, **{**lost, **fields})


def merged(folder: RunFolder) -> Board:
    """The board after a merge."""
    return merge(folder, Rules.of_run(folder))


def end(folder: RunFolder) -> Board:
    """The board of a run whose user has ended it, scored on fresh seeds as its pods are known."""
    board = merge(folder, Rules.of_run(folder), stop="finals first")
    while board.phase == "finals":
        for order in orders(board):
            answer(folder, order, (100.0, 102.0), 1000.0, wall_seconds=4.0, evaluate_seconds=4.0)
        board = merged(folder)
    return board

"""The common part of a contender's process: ``python -m contenders.NAME ROW`` and its answer."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from contenders import rows
from contenders.meter import Meter
from contenders.rows import ROWS, Row

MARK = "contender:"
"""Begins the line with the answer: libraries print what they like."""


class Finished(Exception):
    """Raised inside a library that has no other way to stop: enough was seen."""


@dataclass(frozen=True)
class Task:
    """What one process is asked to do."""

    row: Row
    seed: int
    words: frozenset[str]
    """The variant's: ``medium``, ``2threads``, ``envpool``, ``processes`` and the like."""
    meter: Meter
    notes: list[str]
    """What a reader of the table should know of this run; to append to."""

    def round_ends(self, env_steps: int, last: Iterable[float] | None = None) -> None:
        """As ``Meter.tick``, for a loop that can't stop and does its updates as the row says.

        Off policy, the updates are counted from the end of the random steps on.

        Raises:
            Finished: enough was seen.
        """
        row = self.row
        learned = env_steps - (0 if row.epochs else rows.LEARNING_STARTS)
        updates = max(0, learned) * row.updates_per_round // row.rollout
        if self.meter.tick(env_steps, updates, last):
            raise Finished


def main(train: Callable[[Task], None], package: str) -> None:
    """Train as the command line says, and print one JSON line of what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("row", choices=sorted(ROWS))
    parser.add_argument("--variant", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--limit", type=float, default=60.0)
    given = parser.parse_args()
    row = ROWS[given.row]
    words = frozenset(given.variant.split("+")) - {""}
    _set_torch(words)
    meter = Meter(given.seconds, row.threshold, given.limit)
    task = Task(row, given.seed, words, meter, [])
    sys.argv = sys.argv[:1]  # some libraries read the command line themselves
    with contextlib.suppress(Finished):
        train(task)
    result: dict[str, object] = {"version": _version(package), **meter.result()}
    print(MARK + json.dumps({**result, "notes": task.notes}), flush=True)


def _set_torch(words: frozenset[str]) -> None:
    import torch

    torch.set_num_threads(2 if "2threads" in words else 1)
    if "medium" in words:
        torch.set_float32_matmul_precision("medium")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"

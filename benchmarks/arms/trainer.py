"""Rounds of hpcpod's agent for optimisers that are not hpcpod's.

A round is what a slot would train and score: ``Pod`` executes a ``Birth``. So every arm has the
same agent, environments, panels (the same seeds for all at equal experience) and checkpoints, and
to copy a checkpoint is to copy its names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arms.order import Order
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import Choice, Int, Range, Scalar
from hpcpod.errors import Diverged
from hpcpod.records.records import Birth, Checkpoint, decode, encode, stable_hash
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import resolve_task
from hpcpod.storage.run_folder import RunFolder


def prepare(order: Order) -> None:
    """Make the folder of blobs that the trainers of an order share."""
    resolved, _look = resolve_task(from_mapping(order.config()), source="the benchmark")
    create_run(resolved, Path(order.folder))


def clipped(given: Any, space: Range) -> Scalar:
    """A value inside its range: Ray's perturbations pass its ends; SMAC gives numpy's scalars."""
    if isinstance(space, Choice):
        plain: Scalar = given.item() if isinstance(given, np.generic) else given
        return plain
    inside = min(max(float(given), space.low), space.high)
    return round(inside) if isinstance(space, Int) else inside


@dataclass(frozen=True)
class Played:
    """A round's result."""

    score: float
    """Mean return on the round's panel, or the task's lowest where the training has failed."""
    checkpoint: Any
    """The checkpoint of the next round, as JSON; None: it has failed."""


class Trainer:
    """Trains rounds, in a process of its own."""

    def __init__(self, order: Order) -> None:
        from hpcpod.pod.numerics import set_numerics  # torch: not in the optimiser's process
        from hpcpod.pod.pod import Pod

        self._order = order
        self._folder = RunFolder.open(Path(order.folder) / "run")
        resolved = self._folder.resolved
        self._spaces = resolved.algorithms
        set_numerics(resolved.config)
        self._pod = Pod(self._folder, resolved.config, resolved.algorithms)

    def train(
        self, key: str, algorithm: str, drawn: Mapping[str, Any], start: Any, rounds: int
    ) -> Played:
        """Train and score one round.

        Args:
            key: the training's name; its random numbers follow from it and the order's seed.
            algorithm: of the task's.
            drawn: a value for each range.
            start: ``checkpoint`` of the round before; None: from scratch.
            rounds: that a whole training has, for schedules.
        """
        order = self._order
        begun = None if start is None else decode(Checkpoint, start)
        done = 0 if begun is None else begun.env_steps
        number = done // order.task.round_steps + 1
        birth = Birth(
            key, number, 1, algorithm, self._whole(algorithm, drawn),
            stable_hash(order.seed, "training", key), begun,
            begins=min(1.0, (number - 1) / rounds), ends=min(1.0, number / rounds),
        )  # fmt: skip
        try:
            report = self._pod.execute(birth, "slot", _watch())
        except Diverged:
            self._log(key, order.task.low, "", 0)
            return Played(order.task.low, None)
        assert report.checkpoint is not None
        score = sum(report.returns) / len(report.returns)
        file = str(self._folder.blobs.path(report.checkpoint.core))
        self._log(key, score, file, report.checkpoint.env_steps - done)
        return Played(score, encode(report.checkpoint))

    def _whole(self, algorithm: str, drawn: Mapping[str, Any]) -> dict[str, Scalar]:
        space = self._spaces[algorithm]
        inside = {
            name: clipped(drawn[name], value)
            for name, value in space.values.items()
            if isinstance(value, Range)
        }
        return {**space.unmutated(), **inside}

    def _log(self, key: str, score: float, file: str, steps: int) -> None:
        line = {"key": key, "score": score, "file": file, "steps": steps, "at": time.time()}
        with self._order.played.open(
            "a"
        ) as log:  # one write: lines of several processes stay whole
            log.write(json.dumps(line) + "\n")


def _watch() -> Any:
    from hpcpod.pod.round import Watch

    return Watch()

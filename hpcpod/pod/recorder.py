"""The recorder of a round: it takes rows for the pod's curve while the round is trained.

A row is taken when ``ROW_SECONDS`` have passed since the last one, and at the round's end. Once a
round has ``pod.curve_rows``, every second one is dropped and the seconds between two rows double.
So a round of any length has at most that many, evenly spread, and the longer it takes the less it
costs. Rows are written every ``WRITE_SECONDS``, at each checkpoint and at the round's end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from hpcpod.agents.base import Measured
from hpcpod.errors import StorageError
from hpcpod.metrics.mirrors import Mirrors, logged_of
from hpcpod.pod.replica import Replica
from hpcpod.records.records import Birth
from hpcpod.storage.curves import Curve, columns_of
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)

ROW_SECONDS = 0.1
"""Seconds between two rows at the begin of a round."""
WRITE_SECONDS = 10.0
"""Seconds between two writes of the rows of a round in progress on this machine. Slots of a cluster
write at checkpoints and ends alone: thousands of them share a disk."""
MOST_NAMES = 64
"""Numbers in a row at most."""
MIRROR_SECONDS = 1.0
"""Least seconds between two rows that loggers get."""

_LONGEST = 200  # bytes of a name
_STATM = Path("/proc/self/statm")
_MIB = 2**20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Recorder:
    """The rows of one round, taken by the pod's first rank."""

    def __init__(
        self,
        folder: RunFolder,
        birth: Birth,
        most: int,
        mirrors: Mirrors,
        may_save: Callable[[], bool],
    ) -> None:
        """The recorder of a round that begins.

        Args:
            folder: the run.
            birth: the round's.
            most: rows at most; 0: none is ever taken.
            mirrors: get rows, too.
            may_save: says if the round's order has come, and what is trained may be shown.
        """
        self._store, self._most, self._mirrors = folder.curves, most, mirrors
        self._may_save = may_save
        self._curve = Curve(
            birth.pod, birth.round, birth.attempt, birth.algorithm, birth.hyperparameters,
            ROW_SECONDS,
        )  # fmt: skip
        self._logged = logged_of(folder, self._curve)
        self._rows: list[dict[str, float]] = []
        self._iterations = 0
        self._steps: int | None = None
        """Experience at the last row; None before the first iteration."""
        self._last = self._written = time.monotonic()
        self._mirrored = 0, -MIRROR_SECONDS
        """Experience and ``train_seconds`` of the last row that loggers got."""
        self._warned = False
        self._every = WRITE_SECONDS
        if folder.resolved.config.cluster.launcher != "local":
            self._every = math.inf
        self._ordered, self._asked = False, -math.inf

    def resume(self, env_steps: int) -> None:
        """Take over the rows up to a checkpoint inside the round: later ones are trained again."""
        found = None
        if self._most:
            with self._refusals():
                found = self._store.up_to(
                    env_steps, self._curve.pod, self._curve.round, self._curve.attempt
                )
        if found is not None:
            self._curve = replace(self._curve, seconds=max(ROW_SECONDS, found.seconds))
            self._rows = found.rows
        self._mirrored = env_steps, -MIRROR_SECONDS
        self._logged = replace(self._logged, first_step=env_steps + 1)

    def look(self, replica: Replica, env_steps: int, train_seconds: float, *, ends: bool) -> None:
        """Take a row if it is time for one; called after every iteration.

        Args:
            replica: has the metrics of its last update.
            env_steps: experience of the pod.
            train_seconds: of the round so far.
            ends: the round is trained.
        """
        now = time.monotonic()
        if self._steps is None:  # the first iteration compiles and allocates: it is no rate
            self._last, self._steps, self._iterations = now, env_steps, 0
        else:
            self._iterations += 1
        seconds = now - self._last
        if not (self._most and (ends or seconds >= self._curve.seconds)):
            return
        row = _measured(replica)
        row |= {"time": time.time(), "train_seconds": train_seconds, "env_steps": float(env_steps)}
        if seconds > 0:
            row["env_steps_per_second"] = (env_steps - self._steps) / seconds
            row["updates_per_second"] = self._iterations / seconds
        self._last, self._steps, self._iterations = now, env_steps, 0
        self._add(row)
        if self._mirrors:
            self._mirror(ends=ends)
        if now - self._written >= self._every:
            self.write()

    def _add(self, row: dict[str, float]) -> None:
        if len(self._rows) >= self._most:
            self._rows = self._rows[1::2]
            self._curve = replace(self._curve, seconds=2 * self._curve.seconds)
        self._rows.append(row)

    def _mirror(self, *, ends: bool) -> None:
        """Give loggers the rows that they have not, of a speculative round once it is ordered."""
        steps, seconds = self._mirrored
        due = ends or self._rows[-1]["train_seconds"] >= seconds + MIRROR_SECONDS
        if not due or not self._counts(now=ends):
            return
        for row in self._rows:
            spaced = row["train_seconds"] >= seconds + MIRROR_SECONDS
            if row["env_steps"] > steps and (spaced or (ends and row is self._rows[-1])):
                self._mirrors.log(self._logged, row)
                seconds = row["train_seconds"]
                self._mirrored = int(row["env_steps"]), seconds

    def write(self) -> None:
        """Write the rows of the round in progress; a disk that refuses costs these rows alone."""
        self._written = time.monotonic()
        if self._rows and self._counts(now=True):
            with self._refusals():
                self._store.write(self._whole())

    def seal(self) -> None:
        """Write the rows of the round, which is trained."""
        if self._rows:
            with self._refusals():
                self._store.seal(self._whole(), ordered=self._counts(now=True))

    def _counts(self, *, now: bool) -> bool:
        """True once the round's order has come; a question to the disk, asked now or seldom."""
        if not self._ordered and (now or time.monotonic() - self._asked >= WRITE_SECONDS):
            self._asked = time.monotonic()
            with self._refusals():
                self._ordered = self._may_save()
        return self._ordered

    def _whole(self) -> Curve:
        return replace(self._curve, columns=columns_of(self._rows))

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, OSError) as error:  # pathlib lets ESTALE and EIO through
            if not self._warned:
                log.warning("the curve of %s is not complete: %s", self._curve.order, error)
            self._warned = True


def _measured(replica: Replica) -> dict[str, float]:
    """The numbers of a pod now: those that are finite."""
    # hpcpod's own agents have it for nothing, but for the price of an operation.
    agent = replica.agent
    more = agent.curve_metrics() if isinstance(agent, Measured) else {}
    numbers = {**more, **replica.metrics}
    row = {_name(name): float(value) for name, value in islice(numbers.items(), MOST_NAMES)}
    row |= _memory()
    return {name: value for name, value in row.items() if math.isfinite(value)}


def _name(name: object) -> str:
    """A metric's name that any file takes: agents choose theirs freely."""
    return str(name).encode(errors="replace")[:_LONGEST].decode(errors="replace") or "unnamed"


def _memory() -> dict[str, float]:
    """Memory of this process, and of its tensors on a GPU, in MiB."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):  # another system than Linux
        found["memory_mib"] = int(_STATM.read_text().split()[1]) * _PAGE / _MIB
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found["gpu_memory_mib"] = torch.cuda.memory_allocated() / _MIB
    return found

"""The curve of a program's round: what it says of its progress, as rows in the run folder."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from hpcpod.errors import StorageError
from hpcpod.metrics.mirrors import Mirrors, logged_of
from hpcpod.records.records import Birth
from hpcpod.storage.curves import Curve, columns_of
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)

MOST_NAMES = 64
WRITE_SECONDS = 2.0
"""Least time between two writes of a round in progress, in a run on this machine."""


class ProgressCurve:
    """Rows of one round. When they are too many every second one is left out."""

    def __init__(
        self, folder: RunFolder, birth: Birth, rows: int, mirrors: Mirrors, env_steps: int
    ) -> None:
        """Args:
        folder: of the run.
        birth: the round.
        rows: that it may have; 0: there is no curve.
        mirrors: loggers that get them, too.
        env_steps: experience at which it goes on; earlier rows are taken over.
        """
        self._store, self._most, self._mirrors = folder.curves, rows, mirrors
        self._curve = Curve(
            birth.pod, birth.round, birth.attempt, birth.algorithm, dict(birth.hyperparameters)
        )
        self._logged = logged_of(folder, self._curve)
        self._here = folder.resolved.config.cluster.launcher == "local"
        self._written = time.monotonic()
        self._every, self._count = 1, 0
        self._rows: list[dict[str, float]] = []
        with contextlib.suppress(StorageError, OSError):
            found = self._store.up_to(env_steps, birth.pod, birth.round, birth.attempt)
            self._rows = [] if found is None or not rows else found.rows

    def add(self, env_steps: int, seconds: float, numbers: Mapping[str, float]) -> None:
        """Take one line of the program's.

        Args:
            env_steps: experience of the pod.
            seconds: of the round so far.
            numbers: what the line says beside its steps.
        """
        if not self._most:
            return
        given = {k[:200]: v for k, v in islice(numbers.items(), MOST_NAMES) if k != "steps"}
        row = {
            **given, "time": time.time(), "train_seconds": seconds, "env_steps": float(env_steps)
        }  # fmt: skip
        if self._mirrors:
            self._mirrors.log(self._logged, row)
        self._count += 1
        if self._count % self._every:
            return
        if len(self._rows) >= self._most:
            self._rows, self._every = self._rows[1::2], 2 * self._every
        self._rows.append(row)
        if self._here and time.monotonic() - self._written >= WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the rows of the round in progress."""
        self._written = time.monotonic()
        self._store_rows(sealed=False)

    def seal(self) -> None:
        """Write the rows of the round, which is trained."""
        self._store_rows(sealed=True)

    def _store_rows(self, *, sealed: bool) -> None:
        if not self._rows:
            return
        whole = replace(self._curve, columns=columns_of(self._rows))
        try:
            self._store.seal(whole, ordered=True) if sealed else self._store.write(whole)
        except (StorageError, OSError) as error:  # it costs rows of a curve, and no round
            log.warning("the curve of %s is not complete: %s", self._curve.order, error)

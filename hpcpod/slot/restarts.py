"""Restarts of a slot: how many of them in a row have brought the run no further."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace

from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import StorageError
from hpcpod.records.records import Birth, Order
from hpcpod.storage.restarts import Begun, RestartRecord
from hpcpod.storage.run_folder import RunFolder

MOST_WITHOUT_PROGRESS = 10
"""Starts in a row without progress after which a slot gives up, else requeued for ever."""

SAVE_SECONDS = 60.0
"""Interval between two saves of the record: what a SIGKILL hides of the slot's run time."""


class OwnRestarts:
    """The restarts of one slot, of which this process is the last.

    A slot makes progress when it publishes a report, or saves a checkpoint that is further than the
    one it began from. After a restart it finds in the run folder what the process before, which may
    have been killed, has come to.
    """

    def __init__(self, folder: RunFolder, slot: str, config: RunConfig) -> None:
        """Record this start.

        Raises:
            StorageError: the filesystem refuses to be read.
        """
        self._folder = folder
        self._slot = slot
        self._began = self._saved = time.monotonic()
        last = folder.restarts.read(slot) or RestartRecord(began=time.time(), progress=True)
        resources = config.resources
        self._before = last.seconds
        self._record = RestartRecord(
            restarts=int(os.environ.get("SLURM_RESTART_COUNT") or 0),  # not set at the first start
            without_progress=self._without_progress(last),
            gpus=resources.gpus_per_pod / resources.pods_per_gpu,
            cpus=shape_of(config).cpus,
            began=last.began,
        )
        self.save()

    @property
    def hopeless(self) -> str:
        """The reason for which this slot gives up, in one sentence; empty if it goes on."""
        starts = self._record.without_progress
        if starts < MOST_WITHOUT_PROGRESS:
            return ""
        return (
            f"{starts} lives of this slot in a row ended before it had reported a round"
            " or saved a later checkpoint: it gives up; give its jobs more time (cluster.minutes),"
            " make rounds shorter (round.env_steps) or checkpoints more frequent"
            " (pod.checkpoint_seconds)"
        )

    def begin(self, order: Order) -> None:
        """An order goes into work."""
        if self._record.progress:
            return
        begun = Begun(order.pod)
        if isinstance(order, Birth):
            steps = self._folder.checkpoints.steps(order.pod, order.round)
            begun = Begun(order.pod, order.round, steps)
        self._record = replace(self._record, orders={**self._record.orders, order.id: begun})
        self.save()

    def progress(self) -> None:
        """A report was published."""
        if not self._record.progress:
            self._record = replace(self._record, progress=True)
            self.save()

    def look(self) -> None:
        """Save it now and then; to be called often."""
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Save it, if the filesystem lets it."""
        self._saved = time.monotonic()
        seconds = self._before + self._saved - self._began
        with contextlib.suppress(StorageError):  # no round is ended for this
            self._folder.restarts.save(self._slot, replace(self._record, seconds=seconds))

    def _without_progress(self, last: RestartRecord) -> int:
        """Starts in a row without progress. One that found nothing to do does not count."""
        if self._folder.restarts.made_progress(last):
            return 0
        return last.without_progress + bool(last.orders)

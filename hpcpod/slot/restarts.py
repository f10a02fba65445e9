"""Restarts of a slot: how many of them in a row have brought the run no further."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import get_args

from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import StorageError
from hpcpod.records.records import Birth, Order
from hpcpod.slot.footprint import GpuUse, measured
from hpcpod.storage.restarts import MOST_SPANS, Begun, Doing, RestartRecord, Span
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

    def __init__(
        self,
        folder: RunFolder,
        slot: str,
        config: RunConfig,
        sessions: Callable[[], Collection[int | None]] = tuple,
    ) -> None:
        """Record this start.

        Args:
            folder: of the run.
            slot: its name.
            config: of the run.
            sessions: gives the sessions of the slot's processes now; None for one by srun.

        Raises:
            StorageError: the filesystem refuses to be read.
        """
        self._folder = folder
        self._slot = slot
        self._began = self._saved = self._looked = time.monotonic()
        last = folder.restarts.read(slot) or RestartRecord(began=time.time(), progress=True)
        resources = config.resources
        self._before, self._used_before = last.seconds, (last.cpu_seconds, last.measured)
        self._sessions, self._gpus = sessions, GpuUse()
        self._record = RestartRecord(
            restarts=int(os.environ.get("SLURM_RESTART_COUNT") or 0),  # not set at the first start
            without_progress=self._without_progress(last),
            gpus=resources.gpus_per_pod / resources.pods_per_gpu,
            cpus=shape_of(config).cpus,
            began=last.began,
            peak_mib=last.peak_mib,
            cpu_seconds=last.cpu_seconds,
            measured=last.measured,
            gpu_busy=last.gpu_busy,
            gpu_looks=last.gpu_looks,
            spent={each: last.spent.get(each, 0.0) for each in get_args(Doing)},
        )
        self._earlier = last.spans[1 - MOST_SPANS :]
        self._span = Span(time.time())
        self._doing: Doing = "waiting"
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

    def progress(self, order: str) -> None:
        """The report of an order was published."""
        if self._span.order == order:
            self._span = Span(self._span.began, starting=self._span.starting)
        if not self._record.progress:
            self._record = replace(self._record, progress=True)
            self.save()

    def look(self, doing: Doing, order: str) -> None:
        """Note what the slot does, and the order in hand; to be called often, and saved now and
        then."""
        self._account()
        self._doing, span = doing, self._span
        if doing == "waiting":
            if span.order and not span.until:
                self._span = replace(span, until=time.time())
        elif (doing, order, 0.0) != (span.doing, span.order, span.until):
            now = time.time()
            self._span = replace(span, doing=doing, order=order, since=now, until=0.0)
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self.measure()
            self.save()

    def measure(self) -> None:
        """Note the memory and the CPU time of the slot's processes, and how busy its GPUs are."""
        with contextlib.suppress(OSError, ValueError):  # EMFILE, ENOMEM: no round is ended for this
            self._measure()

    def _measure(self) -> None:
        share = self._gpus.look() if self._record.gpus else None
        if share is not None:
            busy, looks = self._record.gpu_busy + share, self._record.gpu_looks + 1
            self._record = replace(self._record, gpu_busy=busy, gpu_looks=looks)
        sessions = [each for each in self._sessions() if each is not None]
        if len(sessions) < len(self._sessions()):  # srun's are elsewhere, and can't be seen
            return
        now, (cpu, measured_before) = measured(sessions), self._used_before
        self._record = replace(
            self._record,
            peak_mib=max(self._record.peak_mib, now.peak_mib),
            cpu_seconds=max(self._record.cpu_seconds, cpu + now.cpu_seconds),
            measured=measured_before + time.monotonic() - self._began,
        )

    def scored(self, seconds: float) -> None:
        """Count so many seconds of the trainer's work as scoring: its round's panel took them."""
        self._account()
        seconds = min(seconds, self._record.spent["training"])
        self._add(training=-seconds, scoring=seconds)

    def save(self) -> None:
        """Save it, if the filesystem lets it."""
        self._account()
        self._saved = self._looked
        seconds = self._looked - self._began
        spans = (*self._earlier, replace(self._span, seconds=seconds))
        record = replace(self._record, seconds=self._before + seconds, spans=spans)
        with contextlib.suppress(StorageError):  # no round is ended for this
            self._folder.restarts.save(self._slot, record)

    def close(self) -> None:
        """Save it for the last time."""
        self._gpus.close()
        self.save()

    def _account(self) -> None:
        """Add the time since the last look to the activity that was noted then."""
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        self._add(**{self._doing: passed})
        if self._doing == "starting":
            self._span = replace(self._span, starting=self._span.starting + passed)

    def _add(self, **seconds: float) -> None:
        spent = {name: old + seconds.get(name, 0.0) for name, old in self._record.spent.items()}
        self._record = replace(self._record, spent=spent)

    def _without_progress(self, last: RestartRecord) -> int:
        """Starts in a row without progress. One that found nothing to do does not count."""
        if self._folder.restarts.made_progress(last):
            return 0
        return last.without_progress + bool(last.orders)

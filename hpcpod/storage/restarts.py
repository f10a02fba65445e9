"""Restarts of slots, and what each came to: for usage, and to give up a slot in a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hpcpod.errors import Corrupt
from hpcpod.records.records import encode
from hpcpod.storage.checkpoints import Checkpoints
from hpcpod.storage.checksummed import MOST, pack, unpack_record
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import plain, sharded
from hpcpod.storage.reports import Reports


@dataclass(frozen=True)
class Begun:
    """The state of an order when a slot began with it, after its last restart."""

    pod: str
    round: int = 0
    """The round to train; 0 if it is only scored."""
    env_steps: int = 0
    """Steps of experience in the furthest checkpoint that it could go on from; 0 for none."""


Doing = Literal["starting", "training", "scoring", "waiting"]
"""The activity of a slot at one moment: a process that imports, a round in training, a panel or a
set of fresh seeds, or nothing to do. Scoring beside training counts as training."""

MOST_SPANS = 64
"""Starts of which a record keeps the times: the last ones."""


@dataclass(frozen=True)
class Span:
    """One start of a slot, and the time for which it was at work from there on."""

    began: float
    """Unix time of the start, in seconds, by the slot's clock."""
    seconds: float = 0.0
    starting: float = 0.0
    """Of these, seconds in which a process for an order was still importing."""
    order: str = ""
    """The order that it had last, and has not reported; empty without one."""
    doing: Doing = "waiting"
    """The activity that this was."""
    since: float = 0.0
    """Unix time from which the slot did this, in seconds."""
    until: float = 0.0
    """Unix time at which it was interrupted; 0 while it goes on, or if the slot was killed."""


@dataclass(frozen=True)
class RestartRecord:
    """The starts of a slot so far: the first one, and one after each restart by the scheduler."""

    restarts: int = 0
    """Times that the scheduler has started it again (SLURM_RESTART_COUNT)."""
    without_progress: int = field(default=0, metadata={"key": "in_vain"})
    """Starts in a row before the last one that brought the run no further."""
    progress: bool = False
    """True if the last one has."""
    seconds: float = 0.0
    """Run time of the slot's processes, over all starts."""
    gpus: float = 0.0
    """GPUs that it has; a part of one, if slots share it."""
    cpus: int = 1
    """Cores that it has."""
    began: float = 0.0
    """Unix time of the first start, in seconds."""
    orders: Mapping[str, Begun] = field(default_factory=dict)
    """Orders begun since the last start, by name."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """``seconds`` by activity, see ``Doing``. What is missing in their sum was before a version of
    hpcpod that knew them."""
    spans: tuple[Span, ...] = ()
    """The last starts, oldest first; see ``MOST_SPANS``."""
    peak_mib: float = 0.0
    """The highest memory of the slot's processes, in MiB: see ``slot.footprint``. 0 if unknown."""
    cpu_seconds: float = 0.0
    """CPU time of the slot's processes, over all starts that were measured."""
    measured: float = 0.0
    """Run time, in seconds, in which these two were measured; 0: they never were."""
    gpu_busy: float = 0.0
    """Sum over ``gpu_looks`` of the share of time in which kernels ran on its GPUs, in [0, 1]."""
    gpu_looks: int = 0


class Restarts:
    """The restarts of a run's slots; each slot is the one writer of its own record."""

    def __init__(
        self, disk: Disk, folder: Path, reports: Reports, checkpoints: Checkpoints
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._reports = reports
        self._checkpoints = checkpoints

    def save(self, slot: str, record: RestartRecord) -> None:
        """Write a slot's record. May be lost when its machine crashes."""
        self._disk.replace(self._path(slot), pack(encode(record)), durable=False)

    def read(self, slot: str) -> RestartRecord | None:
        """The record of a slot; None if it was never started, or a crash has torn the record."""
        return self._read(self._path(slot))

    def all(self) -> dict[str, RestartRecord]:
        """The record of every slot that the run has had, by slot."""
        found = {}
        for path in sorted(self._folder.glob("*/[!.]*.json")):
            record = self._read(path)
            if record is not None:
                found[path.stem] = record
        return found

    def made_progress(self, record: RestartRecord) -> bool:
        """True if the slot has brought its run further since its last start, by the run's files.

        It did if it published a report, or saved a checkpoint with more steps of experience than
        the one that it began from. A slot that was killed could not say so itself.
        """
        return record.progress or any(
            self._reports.exists(order)
            or (
                begun.round > 0
                and self._checkpoints.steps(begun.pod, begun.round) > begun.env_steps
            )
            for order, begun in record.orders.items()
        )

    def _read(self, path: Path) -> RestartRecord | None:
        try:
            data = self._disk.read(path)
            record = None if data is None else unpack_record(RestartRecord, data, path)
            for order, begun in record.orders.items() if record else ():
                plain(order), plain(begun.pod)
        except Corrupt:
            return None
        return record if record is None or all(0 <= n < MOST for n in _numbers(record)) else None

    def _path(self, slot: str) -> Path:
        return sharded(self._folder, slot, ".json")


def _numbers(record: RestartRecord) -> Iterator[float]:
    yield from (record.seconds, record.gpus, record.cpus, record.began, *record.spent.values())
    yield from (record.peak_mib, record.cpu_seconds, record.measured)
    yield from (record.gpu_busy, record.gpu_looks)
    for span in record.spans:
        yield from (span.began, span.seconds, span.starting, span.since, span.until)

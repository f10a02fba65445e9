"""Restarts of slots, and what each came to: for usage, and to give up a slot in a loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod.errors import Corrupt
from hpcpod.records.records import encode
from hpcpod.storage.checkpoints import Checkpoints
from hpcpod.storage.checksummed import MOST, pack, unpack_record
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import plain, sharded
from hpcpod.storage.reports import Reports


@dataclass(frozen=True)
class Begun:
    """The state of an order when a life of a slot began with it."""

    pod: str
    round: int = 0
    """The round to train; 0 if it is only scored."""
    env_steps: int = 0
    """Steps of experience in the furthest checkpoint that it could go on from; 0 for none."""


@dataclass(frozen=True)
class Life:
    """A slot's lives so far. One ends when its process does, in whatever way; the next begins when
    the scheduler has started the slot again."""

    restarts: int = 0
    """Times that the scheduler has started it again (SLURM_RESTART_COUNT)."""
    in_vain: int = 0
    """Lives in a row before this one that brought the run no further."""
    progress: bool = False
    """True if this one has."""
    seconds: float = 0.0
    """Alive, over all lives."""
    gpus: float = 0.0
    """GPUs that it has; a part of one, if slots share it."""
    cpus: int = 1
    """Cores that it has."""
    began: float = 0.0
    """Unix time at which the first one began, in seconds."""
    orders: Mapping[str, Begun] = field(default_factory=dict)
    """The orders that this one has begun, by name."""


class Restarts:
    """The lives of a run's slots; each slot is the one writer of its own."""

    def __init__(
        self, disk: Disk, folder: Path, reports: Reports, checkpoints: Checkpoints
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._reports = reports
        self._checkpoints = checkpoints

    def save(self, slot: str, life: Life) -> None:
        """Record a slot's lives so far. May be lost when its machine crashes."""
        self._disk.replace(self._path(slot), pack(encode(life)), durable=False)

    def read(self, slot: str) -> Life | None:
        """The lives of a slot so far; None if it had none, or a crash has torn the record."""
        return self._read(self._path(slot))

    def all(self) -> dict[str, Life]:
        """The lives so far of every slot that the run has had, by slot."""
        found = {}
        for path in sorted(self._folder.glob("*/[!.]*.json")):
            life = self._read(path)
            if life is not None:
                found[path.stem] = life
        return found

    def made_progress(self, life: Life) -> bool:
        """Look whether a life brought its run further, as its files show it after its death.

        It did if it published a report, or saved a checkpoint with more steps of experience than
        the one that it began from.
        """
        return life.progress or any(
            self._reports.exists(order)
            or (
                begun.round > 0
                and self._checkpoints.steps(begun.pod, begun.round) > begun.env_steps
            )
            for order, begun in life.orders.items()
        )

    def _read(self, path: Path) -> Life | None:
        try:
            data = self._disk.read(path)
            life = None if data is None else unpack_record(Life, data, path)
            for order, begun in life.orders.items() if life else ():
                plain(order), plain(begun.pod)
        except Corrupt:
            return None
        numbers = () if life is None else (life.seconds, life.gpus, life.cpus)
        return life if all(0 <= number < MOST for number in numbers) else None

    def _path(self, slot: str) -> Path:
        return sharded(self._folder, slot, ".json")

"""The run folder: the only thing that the jobs of a run share."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.resolved import Resolved
from hpcpod.errors import Corrupt, RunNotFound
from hpcpod.records.records import Checkpoint, Report
from hpcpod.storage.board import BoardFile, writer_id
from hpcpod.storage.checksummed import unseal
from hpcpod.storage.claims import Claims
from hpcpod.storage.creation import FORMAT, create_folder
from hpcpod.storage.disk import Disk
from hpcpod.storage.engines import Engines
from hpcpod.storage.intents import Intents
from hpcpod.storage.layout import blob_path
from hpcpod.storage.locks import Lease, file_lock, is_held, seconds_since
from hpcpod.storage.ownership import CONFIG, Ownership, read_config
from hpcpod.storage.prune import sweep
from hpcpod.storage.quarantine import Quarantine, Quarantined
from hpcpod.storage.reports import Reports
from hpcpod.storage.requests import Requests
from hpcpod.storage.restarts import Restarts
from hpcpod.storage.resumes import Resumes
from hpcpod.storage.slots import Slots

if TYPE_CHECKING:
    from hpcpod.storage.blobs import Blobs

LEASE_SECONDS = 90.0
"""How long a coordinator must show no life before another one takes over."""


class RunFolder:
    """One run's folder, for any number of processes on any number of hosts.

    Every file has one writer or is published by compare-and-swap, nothing is changed in
    place, and whatever a process had finished before it was killed counts. Damaged files
    are found by their checksums, go into quarantine, and are never trusted.

    ``StorageError`` is what any method raises when the filesystem refuses, ``RunNotFound``
    what a write raises once the folder was deleted: it is never made again.
    """

    def __init__(self, path: Path, config: dict[str, Any], disk: Disk, owner: Ownership) -> None:
        self.path = path
        self.config = config
        """The resolved configuration of the run, as it was at its creation."""
        self.owner = owner
        """Whose run it is."""
        self.disk = disk
        disk.root = path
        self._quarantine = Quarantine(disk, path)
        self.board = BoardFile(disk, path / "board", self._quarantine)
        self._resumes = Resumes(disk, path / "pods", self._quarantine, self.holds)
        self.requests = Requests(disk, path / "control", self._quarantine, owner)
        self.slots = Slots(disk, path, self._quarantine, owner)
        self.restarts = Restarts(disk, path / "lives")
        self.reports = Reports(disk, path / "reports", self._quarantine)
        self.claims = Claims(disk, path / "claims", self._quarantine)
        self.intents = Intents(disk, path / "intents", self._quarantine, owner)
        self.engines = Engines(disk, path / "engines", self._quarantine, owner)
        self._lease = Lease(path / "lease" / "coordinator", LEASE_SECONDS)

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: dict[str, Any],
        disk: Disk | None = None,
        board: dict[str, Any] | None = None,
    ) -> RunFolder:
        """Create a run: it appears complete or not at all, to one of those who try at once.

        Args:
            path: the folder.
            config: what ``open`` gives as its configuration.
            disk: the seam to the filesystem.
            board: generation 0 of its board, if it is to have one from the start.

        Raises:
            RunExists: something is there already.
            UserError: the folder above can't be written.
        """
        path, disk = Path(path).absolute(), disk or Disk()

        def fill(aside: Path) -> None:
            if board is not None:
                file = BoardFile(disk, aside / "board", Quarantine(disk, aside))
                file.publish(-1, {}, board, writer_id())

        document = create_folder(path, config, disk, fill)
        return cls(path, document, disk, Ownership(path, os.geteuid()))

    @classmethod
    def open(cls, path: str | Path, disk: Disk | None = None) -> RunFolder:
        """Open a run that exists.

        Raises:
            RunNotFound: there is none, or one of another version's layout.
            Corrupt: its configuration is damaged.
        """
        path, disk = Path(path).absolute(), disk or Disk()
        data, owner = read_config(path)
        config = unseal(data, str(path / CONFIG))
        layout = config.get("format") if isinstance(config, dict) else None
        if layout != FORMAT:
            raise RunNotFound(f"the run at {path} has layout {layout}, this hpcpod reads {FORMAT}")
        disk.scheme = config["publish"]
        return cls(path, config, disk, owner)

    @cached_property
    def resolved(self) -> Resolved:
        """The configuration, typed. Where this process may run the run's code (see ``owner``), its
        modules can be imported from now on: they are where they were when it was launched.

        Raises:
            ConfigError: a value in it is none that this hpcpod takes.
            Corrupt: it was written by another version.
        """
        try:
            resolved = Resolved.from_document(self.config)
            if self.owner.trusted:
                plugins.look_in(self.config.get("modules", ()))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            said = f"{self.path / CONFIG} was written by another version of hpcpod: {error}"
            raise Corrupt(said) from error
        return resolved

    @cached_property
    def blobs(self) -> Blobs:
        """The checkpoints. Loads numpy and h5py on first use, as nothing else here does."""
        from hpcpod.storage.blobs import Blobs

        return Blobs(self.disk, self.path / "blobs", self._quarantine)

    # Resume checkpoints: what an unfinished round goes on from.

    def save_resume(self, pod: str, round: int, attempt: int, checkpoint: Checkpoint) -> None:
        """Say where a round can go on; its blobs must be put before. One writer per attempt."""
        self._resumes.save(pod, round, attempt, checkpoint)

    def save_trained(self, report: Report) -> None:
        """Say that a round's training is done, and only its score is missing: see ``Resumes``."""
        self._resumes.save_trained(report)

    def publish_survivor(self, pod: str, round: int, attempt: int, checkpoint: Checkpoint) -> bool:
        """``save_resume`` by a rank that has lost others; False if another survivor was first."""
        return self._resumes.publish_survivor(pod, round, attempt, checkpoint)

    def latest_resume(self, pod: str, round: int) -> Checkpoint | None:
        """The furthest checkpoint of a round, whichever attempt made it; None if there is none."""
        return self._resumes.latest(pod, round)

    def trained(self, pod: str, round: int) -> Report | None:
        """A round whose training is done, as it was saved; None if there is none."""
        return self._resumes.trained(pod, round)

    def resumes(self) -> dict[str, list[Checkpoint]]:
        """By pod, the checkpoints that its unfinished rounds may go on from."""
        return self._resumes.all()

    def drop_resume(self, pod: str, round: int) -> None:
        """Forget where a round can go on: its report is on the board."""
        self._resumes.drop(pod, round)

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Whether all blobs of a checkpoint are there; their content is not verified."""
        blobs = self.path / "blobs"
        return all(self.disk.exists(blob_path(blobs, sha256)) for sha256 in checkpoint.blobs())

    # Locks: efficiency, never correctness.

    def merge_lock(self, timeout: float = 10.0) -> AbstractContextManager[bool | None]:
        """Hold this around a merge: it saves lost races. The body runs in any case."""
        return file_lock(self.path / "lease" / "merge.lock", timeout)

    def driver_lock(self) -> AbstractContextManager[bool | None]:
        """Hold this while running the slots of a local run: one process does at a time."""
        return file_lock(self._driver, 1.0)

    def driven(self) -> bool | None:
        """Whether a process runs the slots of this local run; None where that can't be told."""
        return is_held(self._driver)

    @property
    def _driver(self) -> Path:
        return self.path / "lease" / "local.lock"

    def coordinator_lease(self) -> AbstractContextManager[bool]:
        """Try to be the coordinator, without waiting: whether this process is it.

        Ask again through this same object: that is how a dead coordinator is noticed.
        """
        return self._lease.taken()

    def age(self) -> float:
        """Seconds since the run was made, both ends by the disk's clock as it is seen here."""
        return seconds_since(self.path / CONFIG, self.path / "lease")

    # Damage and dust.

    def quarantine(self, path: Path, reason: str) -> None:
        """Take a damaged file of this run away, with a warning; never raises."""
        self._quarantine.move(path, reason)

    def quarantined(self) -> list[Quarantined]:
        """What was found damaged so far."""
        return self._quarantine.list()

    def prune(self, keep: Collection[str], older_than_seconds: float) -> int:
        """Remove the blobs that are old and not in ``keep``, and old temporary files.

        Returns how many. Give an age far above the time between a blob and its report: a
        blob that no report names yet is protected by its age alone.
        """
        return sweep(self.disk, self.path, frozenset(keep), time.time() - older_than_seconds)

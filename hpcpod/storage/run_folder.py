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
from hpcpod.records.records import Checkpoint, Intent, Owner, Report, encode
from hpcpod.storage.board import BoardFile, writer_id
from hpcpod.storage.checksummed import seal, unseal, unsealed
from hpcpod.storage.creation import FORMAT, create_folder
from hpcpod.storage.disk import Disk
from hpcpod.storage.engines import Engines
from hpcpod.storage.intents import Intents
from hpcpod.storage.layout import blob_path, sharded
from hpcpod.storage.locks import Lease, file_lock, is_held, seconds_since
from hpcpod.storage.ownership import CONFIG, Ownership, read_config
from hpcpod.storage.prune import sweep
from hpcpod.storage.quarantine import Quarantine, Quarantined
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
        self._intents = Intents(disk, path / "intents", self._quarantine)
        self._engines = Engines(disk, path / "engines", self._quarantine)
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

    # Reports: one writer each, published once.

    def publish_report(self, report: Report) -> bool:
        """Publish a report; False if another report of this order was first.

        Its blobs must be put before: a report that is seen is complete.
        """
        return self.disk.publish(self._report(report.order), seal(encode(report)))

    def read_report(self, order: str) -> Report | None:
        """The report of an order; None if there is none yet.

        Raises:
            Corrupt: it is damaged, or another order's. A copy goes into quarantine, and the
                file stays: whoever asks next gets the same answer, and its attempt is over.
        """
        path = self._report(order)
        try:
            data = self.disk.read(path)
            if data is None:
                return None
            report = unsealed(Report, data, path)
            if report.order != order:
                raise Corrupt(f"{path} is the report of {report.order}")
        except Corrupt as error:
            self._quarantine.copy(path, str(error))
            raise
        return report

    def has_report(self, order: str) -> bool:
        """Whether an order has a report, sound or damaged."""
        return self.disk.exists(self._report(order))

    def _report(self, order: str) -> Path:
        return sharded(self.path / "reports", order, ".json")

    # Claims: who works on an order.

    def claim(self, order: str, owner: Owner) -> bool:
        """Take an order. True for one owner only, and for it again after a requeue.

        The same slot of the same job is the same owner, whatever its host and process.
        """
        path, data = self._claim(order), seal(encode(owner))
        for _ in range(2):
            if self.disk.publish(path, data):
                return True
            holder = self.claim_owner(order)
            if holder is not None:
                return (holder.slot, holder.job) == (owner.slot, owner.job)
        return False

    def claim_owner(self, order: str) -> Owner | None:
        """Who holds an order; None if nobody does.

        A damaged claim goes into quarantine and holds nothing: else nobody could ever take
        the order. If its owner lives, the order is worked on twice, which costs time and
        nothing else: one report of an order counts.
        """
        return self._quarantine.sound(Owner, self._claim(order))

    def _claim(self, order: str) -> Path:
        return sharded(self.path / "claims", order)

    # Intents: a submission counts once; see ``Intents``.

    def publish_intent(self, intent: Intent) -> bool:
        """Announce a submission before it is made; one of those who want its number wins.

        Raises:
            UserError: the run is somebody else's, as for all that follows of intents and requests.
        """
        self.owner.require_mine()
        return self._intents.publish(intent)

    def intents(self) -> list[Intent]:
        """Every intent that was announced, by number; damaged ones are left out."""
        return self._intents.all()

    def intent_count(self) -> int:
        """The next free number for an intent."""
        return self._intents.count()

    def record_submission(self, number: int, job: str) -> str:
        """Say that ``job`` carries out an intent; return the job that does, for ever."""
        self.owner.require_mine()
        return self._intents.record(number, job)

    def submission(self, number: int) -> str | None:
        """The job that carries out an intent; None while none is recorded."""
        return self._intents.submission(number)

    # Engines: what simulates, for scores that are compared; see ``Engines``.

    def agree_on_engine(self, scores: str, engine: str) -> str:
        """The engine that computes all the ``scores`` of a kind: the first one that asked."""
        return self._engines.agree(scores, engine)

    def forget_engines(self) -> None:
        """Let the next one that asks decide anew."""
        self.owner.require_mine()
        self._engines.forget()

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

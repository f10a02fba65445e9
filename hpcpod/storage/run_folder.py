"""The run folder: the only thing that the jobs of a run share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.resolved import Resolved
from hpcpod.errors import Corrupt, RunNotFound, StorageError
from hpcpod.storage.board import BoardFile
from hpcpod.storage.checkpoints import Checkpoints
from hpcpod.storage.checksummed import unpack
from hpcpod.storage.claims import Claims
from hpcpod.storage.creation import FORMAT, Fill, create_folder
from hpcpod.storage.curves import Curves
from hpcpod.storage.decisions import Decisions
from hpcpod.storage.disk import TEMPORARY, Disk, explained
from hpcpod.storage.engines import Engines
from hpcpod.storage.extensions import Extensions
from hpcpod.storage.intents import Intents
from hpcpod.storage.locks import Locks, time_of_disk
from hpcpod.storage.ownership import CONFIG, Ownership, read_config
from hpcpod.storage.quarantine import Quarantine
from hpcpod.storage.reports import Reports
from hpcpod.storage.requests import Requests
from hpcpod.storage.restarts import Restarts
from hpcpod.storage.slots import Slots

if TYPE_CHECKING:
    from hpcpod.storage.blobs import Blobs


class RunFolder:
    """One run's folder, for any number of processes on any number of hosts.

    Each kind of file is in a store of its own, such as ``reports``. Every file has one writer or
    is published by compare-and-swap, and none is changed in place. All that a process had
    finished before it was killed counts. Damaged files are found by their checksums, go into
    quarantine, and are never trusted.

    ``StorageError`` is what any method raises when the filesystem refuses, ``RunNotFound``
    what a write raises once the folder was deleted: it is never made again.
    """

    def __init__(self, path: Path, config: dict[str, Any], disk: Disk, owner: Ownership) -> None:
        self.path = path
        self.config = config
        """The resolved configuration of the run, as it was at its creation, and whatever extends
        it in ``extensions``: ``resolved`` is both."""
        self.owner = owner
        """The owner of the run."""
        self.disk = disk
        disk.root = path
        self.quarantine = Quarantine(disk, path)
        self.board = BoardFile(disk, path / "board", self.quarantine)
        self.reports = Reports(disk, path / "reports", self.quarantine)
        self.decisions = Decisions(disk, path / "decisions", self.quarantine)
        self.claims = Claims(disk, path / "claims", self.quarantine)
        self.requests = Requests(disk, path / "control", self.quarantine, owner)
        self.checkpoints = Checkpoints(disk, path, self.quarantine)
        self.curves = Curves(disk, path / "curves", self.quarantine)
        self.slots = Slots(disk, path, self.quarantine, owner)
        self.restarts = Restarts(disk, path / "lives", self.reports, self.checkpoints)
        self.intents = Intents(disk, path / "intents", self.quarantine, owner)
        self.engines = Engines(disk, path / "engines", self.quarantine, owner)
        self.extensions = Extensions(disk, path / "extensions", self.quarantine, owner)
        self.locks = Locks(path / "lease")
        self._resolved: tuple[int, Resolved] | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: dict[str, Any],
        disk: Disk | None = None,
        board: dict[str, Any] | None = None,
        fill: Fill | None = None,
    ) -> RunFolder:
        """Create a run: it appears complete or not at all, to one of those who try at once.

        Args:
            path: the folder.
            config: what ``open`` gives as its configuration.
            disk: through which all files are read and written.
            board: generation 0 of its board, if it is to have one from the start.
            fill: writes what the board names into the folder before it appears.

        Raises:
            RunExists: something is there already.
            UserError: the folder above can't be written.
        """
        path, disk = Path(path).absolute(), disk or Disk()
        document = create_folder(path, config, disk, board, fill)
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
        config = unpack(data, str(path / CONFIG))
        layout = config.get("format") if isinstance(config, dict) else None
        if layout != FORMAT:
            raise RunNotFound(f"the run at {path} has layout {layout}, this hpcpod reads {FORMAT}")
        disk.scheme = config["publish"]
        return cls(path, config, disk, owner)

    @property
    def resolved(self) -> Resolved:
        """The configuration, typed, with every extension that is known of. Where this process may
        run the run's code (see ``owner``), its modules can be imported from now on: they are where
        they were when it was launched.

        Raises:
            ConfigError: a value in it is none that this hpcpod takes.
            Corrupt: it was written by another version.
        """
        known = self.extensions.all()
        if self._resolved is not None and self._resolved[0] == len(known):
            return self._resolved[1]
        try:
            resolved = Resolved.from_document(self.config)
            for extension in known:
                resolved = resolved.extended(extension.limits)
            if self.owner.trusted:
                plugins.look_in(self.config.get("modules", ()))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            said = f"{self.path / CONFIG} was written by another version of hpcpod: {error}"
            raise Corrupt(said) from error
        self._resolved = len(known), resolved
        return resolved

    @cached_property
    def blobs(self) -> Blobs:
        """The blobs that checkpoints name. Unlike other stores, this one loads numpy and h5py."""
        from hpcpod.storage.blobs import Blobs  # h5py: 0.3 s

        return Blobs(self.disk, self.path / "blobs", self.quarantine)

    def age(self) -> float:
        """Seconds since the run was made, both ends by the disk's clock as it is seen here."""
        with explained("look at", self.path / CONFIG):
            made = (self.path / CONFIG).stat().st_mtime
        return time_of_disk(self.path / "lease") - made

    def prune(self, keep: Collection[str], older_than_seconds: float) -> int:
        """Remove the blobs that are old and not in ``keep``, and old temporary files.

        Returns how many. Give an age far above the time between a blob and its report: a
        blob that no report names yet is protected by its age alone. Safe beside writers: one
        whose temporary file is removed while it is stopped writes it anew.
        """
        # By a node's clock that is ahead a blob of now would be an old one.
        before = time_of_disk(self.path / "lease") - older_than_seconds
        kept, removed = set(keep), 0
        # The owner may have a folder of the run on another disk; deeper down no link is followed.
        linked = [path for path in self.path.glob("*") if path.is_symlink() and path.is_dir()]
        tops = (self.path, *linked)
        for folder, folders, files in (found for top in tops for found in os.walk(top)):
            leftovers = [name for name in (*folders, *files) if name.startswith(TEMPORARY)]
            folders[:] = [name for name in folders if not name.startswith(TEMPORARY)]
            if Path(folder).parent == self.path / "blobs":
                blobs = (name for name in files if name.endswith(".h5"))
                leftovers += [name for name in blobs if name.removesuffix(".h5") not in kept]
            for name in leftovers:
                with contextlib.suppress(StorageError, OSError):
                    path = Path(folder) / name
                    if path.lstat().st_mtime < before:
                        self.disk.discard(path)
                        removed += 1
        return removed

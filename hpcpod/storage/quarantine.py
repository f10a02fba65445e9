"""The quarantine of damaged files: kept as evidence, never trusted again."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hpcpod.errors import Corrupt, StorageError
from hpcpod.storage.checksummed import unpack_record
from hpcpod.storage.disk import Disk

_REASON = ".reason"
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Quarantined:
    """One damaged file."""

    name: str
    """Its path in the run folder, with ``+`` for ``/``, and the start of its sha256."""
    reason: str


class Quarantine:
    """A run's damaged files. Safe for any number of processes. A damaged file is a warning in
    the log, never an exception, whatever the filesystem says to its removal.
    """

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._folder = root / "quarantine"

    def sound(self, kind: type[_T], path: Path) -> _T | None:
        """The record in a file; None if there is none, or a damaged one, which is moved here.

        Raises:
            StorageError: the filesystem refuses to be read.
        """
        try:
            data = self._disk.read(path)
            return None if data is None else unpack_record(kind, data, path)
        except Corrupt as error:
            self.move(path, str(error))
            return None

    def move(self, path: Path, reason: str) -> None:
        """Take a file away, so that its name is free for a sound one."""
        self._keep(path, reason, free=True)

    def copy(self, path: Path, reason: str) -> None:
        """Keep a copy of a file whose name must never be free again."""
        self._keep(path, reason, free=False)

    def list(self) -> list[Quarantined]:
        """The damaged files found so far, by name."""
        found = []
        for path in sorted(self._folder.glob("*" + _REASON)):
            try:
                reason = self._disk.read(path) or b""
            except Corrupt as error:  # another user may have put anything here
                reason = str(error).encode()
            found.append(Quarantined(path.name[: -len(_REASON)], reason.decode(errors="replace")))
        return found

    def _keep(self, path: Path, reason: str, *, free: bool) -> None:
        try:
            try:
                data = self._disk.read(path)
            except Corrupt:  # a link, a pipe, or more than could be kept
                data = b""
            if data is None:
                return
            target = self._folder / self._name(path, data)
            if not self._disk.exists(target):
                _log.warning("%s; it is kept in %s", reason, target)
                said = reason.encode(errors="replace")
                self._disk.publish(target.with_name(target.name + _REASON), said)
                self._disk.publish(target, data)
            if free:
                self._disk.remove(path)
        except StorageError as error:
            _log.warning("%s; it can't be put into quarantine: %s", reason, error)

    def _name(self, path: Path, data: bytes) -> str:
        place = path.relative_to(self._root).as_posix().replace("/", "+")
        return f"{place}.{hashlib.sha256(data).hexdigest()[:12]}"

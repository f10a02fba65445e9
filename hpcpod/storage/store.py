"""Stores: each holds one kind of file of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from hpcpod.records.records import encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.disk import Disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine

_T = TypeVar("_T")


class Store:
    """One kind of file in a folder."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine) -> None:
        self._disk = disk
        self._folder = folder
        self._quarantine = quarantine

    def _first(self, kind: type[_T], path: Path, record: _T, *, durable: bool = True) -> _T | None:
        """The first record that was published under a name: this one, if there was none.

        None if a damaged one was there, and another again.
        """
        for _ in range(2):  # a damaged one is moved to quarantine, and its name is free again
            if self._disk.publish(path, pack(encode(record)), durable=durable):
                return record
            found = self._quarantine.sound(kind, path)
            if found is not None:
                return found
        return None


class OwnedStore(Store):
    """One kind of file, with methods that are for the owner's processes alone."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine, owner: Ownership) -> None:
        super().__init__(disk, folder, quarantine)
        self._owner = owner

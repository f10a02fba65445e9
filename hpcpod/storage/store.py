"""Stores: each holds one kind of file of a run folder."""

from __future__ import annotations

from pathlib import Path

from hpcpod.storage.disk import Disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine


class Store:
    """One kind of file in a folder."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine) -> None:
        self._disk = disk
        self._folder = folder
        self._quarantine = quarantine


class OwnedStore(Store):
    """One kind of file, with methods that are for the owner's processes alone."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine, owner: Ownership) -> None:
        super().__init__(disk, folder, quarantine)
        self._owner = owner

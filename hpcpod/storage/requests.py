"""Requests in a run folder: what a person, or the run itself, asks of all its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcpod.storage.checksummed import seal
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import plain
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine

REFUSED = "refused"
"""The request of a slot that can do nothing for the run, with its ``reason``: a person's turn."""


class Requests:
    """The requests of a run, by name; a request stands until it is withdrawn.

    Only the owner's processes may write here: each method that writes raises ``UserError`` in
    a process of another user.
    """

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine, owner: Ownership) -> None:
        self._disk = disk
        self._folder = folder
        self._quarantine = quarantine
        self._owner = owner

    def publish(self, name: str, payload: dict[str, Any] | None = None) -> None:
        """Ask for something, such as ``stop``; asking again changes nothing."""
        self._owner.require_mine()
        self._disk.publish(self._path(name), seal(payload or {}))

    def replace(self, name: str, payload: dict[str, Any]) -> None:
        """Ask for something with a new payload, whether or not it was asked for before."""
        self._owner.require_mine()
        path = self._path(name)
        if path.is_dir():  # as a name is published where hard links fail
            self._disk.remove(path)
        self._disk.replace(path, seal(payload))

    def read(self, name: str) -> dict[str, Any] | None:
        """The payload of a request; None if it does not stand."""
        return self._quarantine.sound(dict[str, Any], self._path(name))

    def withdraw(self, name: str) -> None:
        """Take a request back, if it stands."""
        self._owner.require_mine()
        self._disk.remove(self._path(name))

    def changed(self) -> int:
        """A number that changes with every request that comes or goes; 0 without any."""
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _path(self, name: str) -> Path:
        return self._folder / (plain(name) + ".json")

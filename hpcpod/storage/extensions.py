"""Extensions in a run folder: larger limits, a file each, laid over ``config.json``.

To publish the file is the extension, whatever dies before or after it: the configuration has the
new limits from then on, and the next merge writes the board that goes on by them. That board holds
the extension, too. So a process that reads the board knows it, though its view of this folder be
old, or the file be damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcpod.records.records import Extension, encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.disk import Disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine
from hpcpod.storage.store import OwnedStore


class Extensions(OwnedStore):
    """The extensions of a run, by number from 1."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine, owner: Ownership) -> None:
        super().__init__(disk, folder, quarantine, owner)
        self._known: list[Extension] | None = None

    def all(self) -> tuple[Extension, ...]:
        """Those that this process knows, oldest first; it reads the folder once, and then looks no
        more until ``look`` or ``adopt``."""
        return tuple(self.look() if self._known is None else self._known)

    def look(self) -> list[Extension]:
        """Read those that have come since the last look."""
        known = self._known = self._known or []
        # By name, not by a listing, which may be old.
        while (found := self._read(len(known) + 1)) is not None:
            known.append(found)
        return known

    def adopt(self, of_board: Sequence[Extension]) -> None:
        """Take over those that a board knows."""
        if len(of_board) > len(self.all()):
            self._known = list(of_board)

    def publish(self, extension: Extension) -> bool:
        """Extend the run; False if another process was first.

        Raises:
            UserError: the run is another user's.
        """
        self._owner.require_mine()
        self._disk.make_folder(self._folder)  # a run of an earlier version has none
        self._disk.close(self._folder)
        return self._disk.publish(self._path(extension.number), pack(encode(extension)))

    def _read(self, number: int) -> Extension | None:
        found = self._quarantine.sound(Extension, self._path(number))
        return found if found is None or found.number == number else None

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

"""Slots in a run folder: the status that each shows, and the requests to retire."""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from typing import Any, Literal

from hpcpod.errors import Corrupt, StorageError
from hpcpod.storage.checksummed import pack, unpack
from hpcpod.storage.disk import Disk, explained
from hpcpod.storage.layout import plain
from hpcpod.storage.locks import time_of_disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine

LANE = "+"
"""Stands between the name of an array's element and the number of one of its slots."""

_MOST = 2**53
"""Limit of the numbers in a status, which another user may have written."""

_HEARD = 60.0
"""Seconds of silence up to which nothing follows from it, whatever this machine's clock says."""

When = Literal["now", "round"]
"""The moment at which a slot retires: at once, with a checkpoint, or after the round in hand."""


_TEXTS = {"state", "order", "pod", "algorithm", "host", "job"}


def _is_status(data: Any, *, beside: bool = True) -> bool:
    """Check the form of a slot's status: texts under some names, numbers under the others, and
    the same once more for what it scores."""
    return isinstance(data, dict) and all(
        _is_status(value, beside=False) and "order" in value if beside and name == "scoring"
        else isinstance(value, str if name in _TEXTS else (int, float))
        and not (isinstance(value, int) and abs(value) >= _MOST)
        for name, value in data.items()
    )  # fmt: skip


def element(slot: str) -> str:
    """The job's, or array element's, name of a slot, which may be one of several in it."""
    return slot.partition(LANE)[0]


class Slots:
    """The slots of a run. The status of a slot has the slot as its one writer."""

    def __init__(self, disk: Disk, root: Path, quarantine: Quarantine, owner: Ownership) -> None:
        """``root`` is the run folder."""
        self._disk = disk
        self._root = root
        self._quarantine = quarantine
        self._owner = owner

    def write(self, slot: str, status: dict[str, Any]) -> None:
        """Show what a slot does. May be lost when its machine crashes."""
        self._disk.replace(self._status(slot), pack(status), durable=False)

    def all(self) -> dict[str, dict[str, Any]]:
        """The latest status of each slot, with its ``mtime`` (Unix time, in seconds)."""
        shown = {}
        for path in sorted((self._root / "slots").glob("*.json")):
            try:
                data = self._disk.read(path)
                if data is not None:
                    status = unpack(data, str(path))
                    if _is_status(status):
                        shown[plain(path.stem)] = {**status, "mtime": path.lstat().st_mtime}
            except (Corrupt, FileNotFoundError):
                continue
        return shown

    def silence(self, slot: str) -> float:
        """Seconds since a slot showed something; infinite if it never did, or is gone."""
        path = self._status(slot)
        with explained("look at", path):
            try:
                shown = path.lstat().st_mtime
            except FileNotFoundError:
                return math.inf
        silent = time.time() - shown
        if not 0 <= silent < _HEARD:  # by a clock that may be minutes from the disk's
            with contextlib.suppress(StorageError):
                silent = time_of_disk(path.parent) - shown
        return silent

    def drop(self, slot: str) -> None:
        """Forget what a slot that is gone did."""
        self._disk.remove(self._status(slot))

    def retire(self, slot: str, when: When, why: str) -> None:
        """Ask the element of a slot to retire; asking again may only hasten it. May be lost when
        this machine crashes: the next plan asks again.

        Raises:
            UserError: the run is another user's.
        """
        self._owner.require_mine()
        if self.retiring(slot) != "now":
            data = pack({"when": when, "why": why})
            self._disk.replace(self._marker(slot), data, durable=False)  # thousands, of a tick

    def retiring(self, slot: str) -> When | None:
        """The moment at which the element of a slot is to retire; None if it is to stay."""
        payload = self._quarantine.sound(dict[str, str], self._marker(slot))
        if payload is None:
            return None
        return "now" if payload.get("when") == "now" else "round"

    def retirees(self) -> set[str]:
        """The elements that have ever been asked to retire."""
        return {path.stem for path in (self._root / "control" / "retire").glob("[!.]*.json")}

    def _status(self, slot: str) -> Path:
        return self._root / "slots" / (plain(slot) + ".json")

    def _marker(self, slot: str) -> Path:
        return self._root / "control" / "retire" / (plain(element(slot)) + ".json")

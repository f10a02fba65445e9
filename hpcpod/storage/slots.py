"""Slots in a run folder: the status that each shows, and the requests to retire."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from hpcpod.errors import Corrupt, StorageError
from hpcpod.records.records import decode, encode
from hpcpod.storage.checksummed import MOST, pack, unpack
from hpcpod.storage.disk import explained
from hpcpod.storage.layout import plain
from hpcpod.storage.locks import time_of_disk
from hpcpod.storage.store import OwnedStore

LANE = "+"
"""Stands between the name of an array's element and the number of one of its slots."""

_HEARD = 60.0
"""Seconds of silence up to which nothing follows from it, whatever this machine's clock says."""

When = Literal["now", "round"]
"""The moment at which a slot retires: at once, with a checkpoint, or after the round in hand."""


@dataclass(frozen=True)
class OrderStatus:
    """The status of an order that a slot has in hand; None for what it does not show."""

    state: str | None = None
    """``training``, ``scoring``; of a slot without an order ``idle``."""
    order: str | None = None
    pod: str | None = None
    round: int | None = None
    algorithm: str | None = None
    env_steps: int | None = None
    """Steps of experience of the agent."""
    target_steps: int | None = None
    """Steps at which the round ends."""
    mean_return: float | None = None
    """Mean return of the last training episodes; NaN before the first has ended."""
    steps_per_second: float | None = None


@dataclass(frozen=True)
class SlotStatus(OrderStatus):
    """The status of a slot: the order that it trains, or scores, and its process."""

    scoring: OrderStatus | None = None
    """The order that it scores beside the one that it trains."""
    ahead: bool | None = None
    """The order is speculative: the board has not ordered it yet."""
    job: str | None = None
    host: str | None = None
    pid: int | None = None
    mtime: float | None = None
    """Unix time at which the slot showed it, in seconds; no part of the file."""

    @property
    def orders(self) -> tuple[OrderStatus, ...]:
        """The status of each order in hand: one, or another that is scored beside it."""
        return (self,) if self.scoring is None else (self, self.scoring)

    def document(self) -> dict[str, Any]:
        """The status as JSON-able data, without what is not shown."""
        return _shown(encode(self))


@dataclass(frozen=True)
class Retirement:
    """The request to an element to retire."""

    when: When
    why: str


_FIELDS = frozenset(field.name for field in fields(SlotStatus))


def _shown(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _shown(value) if isinstance(value, dict) else value
        for name, value in data.items()
        if value is not None
    }


def read_status(data: Any) -> SlotStatus | None:
    """The status in JSON-able data, which another version or another user may have written.

    Fields that are unknown are passed over; None if a value is none that a slot shows.
    """
    if not isinstance(data, dict):
        return None
    data = {name: value for name, value in data.items() if name in _FIELDS}
    # Nested ones too: another user's file stopped every tick and status.
    if isinstance(beside := data.get("scoring"), dict):
        data["scoring"] = {name: value for name, value in beside.items() if name in _FIELDS}
    try:
        status = decode(SlotStatus, data)
    except (TypeError, ValueError, RecursionError):
        return None
    if status.scoring is not None and status.scoring.order is None:
        return None
    values = [value for each in status.orders for value in vars(each).values()]
    return None if any(type(v) is int and abs(v) >= MOST for v in values) else status


def element(slot: str) -> str:
    """The job's, or array element's, name of a slot, which may be one of several in it."""
    return slot.partition(LANE)[0]


class Slots(OwnedStore):
    """The slots of a run. The status of a slot has the slot as its one writer.

    The folder of this store is the run folder: it looks into ``slots`` and ``control``.
    """

    def write(self, slot: str, status: SlotStatus) -> None:
        """Show what a slot does. May be lost when its machine crashes."""
        self._disk.replace(self._status(slot), pack(status.document()), durable=False)

    def all(self, known: Mapping[str, SlotStatus] | None = None) -> dict[str, SlotStatus]:
        """The status that each slot showed last.

        Args:
            known: what an earlier call gave; a file that has not changed since is not read again.
        """
        shown = {}
        for path in sorted((self._folder / "slots").glob("*.json")):
            try:
                mtime = path.lstat().st_mtime  # first: what is written meanwhile is read next time
                if known and (last := known.get(path.stem)) is not None and last.mtime == mtime:
                    shown[path.stem] = last
                    continue
                data = self._disk.read(path)
                if data is not None:
                    status = read_status(unpack(data, str(path)))
                    if status is not None:
                        shown[plain(path.stem)] = replace(status, mtime=mtime)
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
        # By a clock that may be minutes from the disk's: a round was given out again and again.
        if not 0 <= silent < _HEARD:
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
            data = pack(encode(Retirement(when, why)))
            # Synced, the markers of a shrinking run of thousands took a minute.
            self._disk.replace(self._marker(slot), data, durable=False)

    def retiring(self, slot: str) -> When | None:
        """The moment at which the element of a slot is to retire; None if it is to stay."""
        asked = self._quarantine.sound(Retirement, self._marker(slot))
        return None if asked is None else asked.when

    def retirees(self) -> set[str]:
        """The elements that have ever been asked to retire."""
        return {path.stem for path in (self._folder / "control" / "retire").glob("[!.]*.json")}

    def _status(self, slot: str) -> Path:
        return self._folder / "slots" / (plain(slot) + ".json")

    def _marker(self, slot: str) -> Path:
        return self._folder / "control" / "retire" / (plain(element(slot)) + ".json")

"""The leaderboard's file: immutable generations, published by compare-and-swap.

Generation g is one file, and its name is never free again. Most generations are a *delta*
to the one before, which they name by its checksum; the first two, every 32nd, and the one
after a damaged one are *snapshots* of the whole. From 32 on, every 32nd is an *anchor* at
which reading starts.

**What damage costs.** A generation whose bytes are not what was published is read as one
that changed nothing, and so are its successors up to the next snapshot, since the chain of
checksums is broken there. That needs no repair in place, hence no lock: it follows from the
files alone, and ends with the next snapshot. The reader that finds the damage publishes one. So
does a writer that had read the generation before it was damaged, if that is the latest. (If not,
later readers pass over its deltas, up to the next anchor or another writer's snapshot.)
What the lost generations had merged is still in ``reports/``, and is merged again.
Only a board whose every reachable snapshot is damaged can't be read.
"""

from __future__ import annotations

import logging
import os
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod.errors import Corrupt, StorageError
from hpcpod.records.records import Document
from hpcpod.storage.checksummed import checksum_of, pack, unpack
from hpcpod.storage.disk import Disk, unique
from hpcpod.storage.quarantine import Quarantine
from hpcpod.storage.store import Store

PERIOD = 32
"""Generations from one anchor to the next."""

MOST_BOARD_BYTES = 2**30
"""Of one generation: a pod takes a few thousand."""

_PER_FOLDER = 256  # sites with Lustre ask for a few hundred files at most
_STUB = b'{"emptied":true}\n'
_BROKEN = ""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _State:
    """The document after a generation, and the checksum that the next delta must name."""

    number: int
    document: Document
    checksum: str
    """``_BROKEN`` after a damaged generation: no delta fits it."""


class BoardFile(Store):
    """The board of one run, for any number of processes on any number of hosts.

    Exactly one writer succeeds with each generation, even if others are stopped or killed.
    A reader sees a prefix of the generations published: never half of one.
    """

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine) -> None:
        super().__init__(disk, folder, quarantine)
        self._seen: _State | None = None

    def read(self) -> tuple[int, Document] | None:
        """The latest generation's number and document; None before the first one.

        Sections and rows come sorted by name. Rows are shared with later reads: take them as
        they are, and build new ones.

        Raises:
            Corrupt: every snapshot that the board could be read from is damaged.
            StorageError: the filesystem refuses.
        """
        seen = self._seen
        near = seen is not None and not self._disk.exists(self.path(seen.number + PERIOD))
        state = self._follow(seen) if seen and near else None
        for _ in range(2):
            # Damage is believed when it is still there after another look at the disk.
            if state is None or state.checksum == _BROKEN:
                state = self._latest()
        if state is None:
            return None
        self._seen = state
        return state.number, {name: dict(rows) for name, rows in state.document.items()}

    def newer(self) -> bool:
        """True if there is a generation after the one that ``read`` gave last, or it gave none."""
        return self._seen is None or self._disk.exists(self.path(self._seen.number + 1))

    def publish(self, base: int, old: Document, new: Document, writer: str) -> bool:
        """Make ``new`` the generation after ``base``, whose document is ``old``.

        False if another writer was first: read, and decide anew. True is given once for a
        generation: ``writer`` is part of it, and is unique to a process (``writer_id``).
        The first generation's base is -1 and its old document is empty.

        Raises:
            StorageError: the filesystem refuses; nothing is published.
        """
        number = base + 1
        seen = self._seen if self._seen and self._seen.number == base else None
        previous = seen.checksum if seen else _BROKEN
        head = {"generation": number, "writer": writer, "time": time.time()}
        whole = previous == _BROKEN or number < 2 or number % PERIOD == 0
        # A machine that crashes may tear a generation that others have read: a delta to it would
        # be passed over by all who come later.
        whole = whole or self._checksum_on_disk(base) != previous
        change: dict[str, Any] = {"snapshot": new} if whole else difference(old, new)
        data = pack({**head, "previous": previous, **change})
        # 0.7 ms with the read before it, 8 ms beside a busy disk; a delta is small, the whole of
        # 1,000 pods has 1.1 MB.
        if not self._disk.publish(self.path(number), data):
            return False
        self._seen = _State(number, _sorted(new), checksum_of(data))
        if number % PERIOD == 0:
            self._hint(number)
        return True

    def compact(self) -> int:
        """Empty the generations older than the last sound anchor but one; return how many.

        Their names stay, or a writer that was stopped for days could publish one of them.
        They are emptied from the oldest on, so that a crash leaves no gap and any number of
        processes may do it at once.
        """
        keep = self._last_anchor()
        sound = 0
        while keep is not None and keep > 0:
            sound += self._checksum_on_disk(keep) != _BROKEN
            if sound == 2:
                break
            keep = _anchor_before(keep)
        if sound < 2 or keep is None:
            return 0
        low = bisect_left(range(keep), True, key=lambda number: not self._is_stub(number))
        for number in range(low, keep):
            self._disk.overwrite(self.path(number), _STUB)
        return keep - low

    def path(self, number: int) -> Path:
        """The place of a generation, whether or not it exists."""
        return self._folder / f"{number // _PER_FOLDER:05d}" / f"{number:08d}.json"

    # Reading.

    def _latest(self) -> _State | None:
        for _ in range(3):
            anchor = self._last_anchor()
            if anchor is None:
                return None
            start = self._at_anchor(anchor)
            state = self._follow(start) if start else None
            if state is not None:  # else compacted meanwhile, and the anchor is another one
                return state
        raise StorageError(f"the board in {self._folder} is emptied faster than it can be read")

    def _at_anchor(self, number: int) -> _State | None:
        """The state at an anchor; where that is damaged, of the generation before it.

        None if the anchor has been emptied, which happens to old ones only.
        """
        try:
            data = self._data(number) or b""
            if data == _STUB:
                return None
            payload = self._payload(number, data)
        except Corrupt as error:
            self._quarantine.copy(self.path(number), str(error))
            before = _anchor_before(number)
            start = None if before is None else self._at_anchor(before)
            state = self._follow(start, stop=number) if start else None
            if state is None:
                raise Corrupt(
                    f"the board in {self._folder} can't be read: every snapshot of it is damaged"
                ) from error
            return _State(number, state.document, _BROKEN)
        return _State(number, _sorted(payload["snapshot"]), checksum_of(data))

    def _follow(self, state: _State, stop: int | None = None) -> _State | None:
        """The state after the generations that follow; None if they were emptied meanwhile."""
        start, document = state.number, state.document
        while stop is None or state.number + 1 < stop:
            number = state.number + 1
            try:
                data = self._data(number)
                if data is None:
                    break
                if data == _STUB:
                    return None
                payload = self._payload(number, data)
                if "snapshot" in payload:
                    document = payload["snapshot"]
                elif payload["previous"] != state.checksum:
                    raise Corrupt(f"{self.path(number)} does not follow the generation before it")
                else:
                    document = applied(document, payload)
                state = _State(number, document, checksum_of(data))
            except Corrupt as error:
                self._quarantine.copy(self.path(number), str(error))
                state = _State(number, document, _BROKEN)
        if state.number == start:
            return state
        return _State(state.number, _sorted(document), state.checksum)

    def _data(self, number: int) -> bytes | None:
        return self._disk.read(self.path(number), MOST_BOARD_BYTES)

    def _payload(self, number: int, data: bytes) -> dict[str, Any]:
        path = self.path(number)
        payload: dict[str, Any] = unpack(data, str(path))
        if not _is_generation(payload):
            raise Corrupt(f"{path} is no generation of a board")
        if payload["generation"] != number:
            raise Corrupt(f"{path} holds generation {payload['generation']}")
        return payload

    def _last_anchor(self) -> int | None:
        """The last anchor there is: by the hint, by name, never by a listing."""
        low = self._hinted()
        if low and self._disk.exists(self.path(low)) and not self._is_stub(low):
            while self._disk.exists(self.path(low + PERIOD)):
                low += PERIOD
            return low
        # Names are never free again, so the anchors that exist have no gap: bisect.
        if not self._disk.exists(self.path(PERIOD)):
            return next((n for n in (1, 0) if self._disk.exists(self.path(n))), None)
        reach = 2
        while self._disk.exists(self.path(reach * PERIOD)):
            reach *= 2
        later = range(reach // 2 * PERIOD + PERIOD, reach * PERIOD, PERIOD)
        missing = bisect_left(later, True, key=lambda n: not self._disk.exists(self.path(n)))
        return later.start + (missing - 1) * PERIOD

    def _hinted(self) -> int:
        try:
            data = self._disk.read(self._folder / "LATEST")
            number = unpack(data, "LATEST")["anchor"] if data else 0
        except (Corrupt, KeyError, TypeError):
            return 0
        return number if isinstance(number, int) and number % PERIOD == 0 else 0

    def _hint(self, number: int) -> None:
        try:
            # Not durable: without it the anchor is found by bisection.
            self._disk.replace(self._folder / "LATEST", pack({"anchor": number}), durable=False)
        except StorageError as error:
            _log.warning("the board's hint could not be written: %s", error)

    def _is_stub(self, number: int) -> bool:
        return self._disk.size(self.path(number)) == len(_STUB)

    def _checksum_on_disk(self, number: int) -> str:
        """A generation's checksum as its file is now."""
        data = self._data(number) or b""
        try:
            self._payload(number, data)
        except Corrupt:
            return _BROKEN
        return checksum_of(data)


_identity: tuple[int, str] = (0, "")


def writer_id() -> str:
    """A name for this process that no other process will ever have."""
    global _identity
    if _identity[0] != os.getpid():  # a fork is another writer
        _identity = (os.getpid(), unique())
    return _identity[1]


def difference(old: Document, new: Document) -> dict[str, Any]:
    """The change from ``old`` to ``new``: rows to set and rows to drop, section by section."""
    changed: Document = {}
    dropped: dict[str, list[str] | None] = {name: None for name in old if name not in new}
    for name, rows in new.items():
        before = old.get(name)
        if before is None:
            changed[name] = rows
            continue
        update = {key: row for key, row in rows.items() if key not in before or before[key] != row}
        if update:
            changed[name] = update
        gone = [key for key in before if key not in rows]
        if gone:
            dropped[name] = gone
    return {"set": changed, "drop": dropped}


def applied(document: Document, change: dict[str, Any]) -> Document:
    """The document after a ``difference``; the one given stays as it was."""
    result = dict(document)
    for name, gone in change["drop"].items():
        rows = result.pop(name, {})
        if gone is not None:
            result[name] = {key: row for key, row in rows.items() if key not in set(gone)}
    for name, update in change["set"].items():
        result[name] = {**result.get(name, {}), **update}
    return result


def _is_generation(payload: Any) -> bool:
    """Check that a file's content has the form of a generation; its rows are not looked into."""
    if not isinstance(payload, dict) or not isinstance(payload.get("generation"), int):
        return False
    if not isinstance(payload.get("writer"), str) or not isinstance(payload.get("time"), float):
        return False
    if "snapshot" in payload:
        return _is_document(payload["snapshot"])
    drop = payload.get("drop")
    return (
        _is_document(payload.get("set"))
        and isinstance(payload.get("previous"), str)
        and isinstance(drop, dict)
        and all(
            gone is None or (isinstance(gone, list) and all(isinstance(key, str) for key in gone))
            for gone in drop.values()
        )
    )


def _is_document(sections: Any) -> bool:
    return isinstance(sections, dict) and all(isinstance(rows, dict) for rows in sections.values())


def _sorted(document: Document) -> Document:
    return {name: dict(sorted(rows.items())) for name, rows in sorted(document.items())}


def _anchor_before(number: int) -> int | None:
    if number > PERIOD:
        return number - PERIOD
    return {PERIOD: 1, 1: 0}.get(number)

"""An observer from outside: it keeps every report and every generation that it ever saw.

The checks need the past: generations are emptied when they are old, and what the storms damage
must be known as it was before. A thread looks twenty times in a second; a fault that damages a
file has it look first.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod.errors import Corrupt, HpcpodError
from hpcpod.records.records import Report
from hpcpod.storage.board import BoardFile
from hpcpod.storage.checksummed import unpack_record
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

EMPTIED = b'{"emptied":true}\n'
LOOK_SECONDS = 0.05
READ_SECONDS = 0.5
"""Between two reads of the whole board by a newcomer."""


@dataclass
class SeenReport:
    """A report's file as it was first seen."""

    report: Report | None
    """None if it was torn."""
    appeared: float
    """Unix time of its name, by the disk's own clock."""
    damaged: float | None = None
    """When a fault has damaged it; None while it is as it was."""


@dataclass
class SeenGeneration:
    """A generation's file as it was first seen."""

    data: bytes
    appeared: float
    damaged: bool = False


@dataclass
class Past:
    """All that was seen of one run."""

    reports: dict[str, SeenReport] = field(default_factory=dict)
    """By the order that the file's name says."""
    generations: list[SeenGeneration] = field(default_factory=list)
    blobs: set[str] = field(default_factory=set)
    """sha256 of blobs that were damaged by a fault."""
    stops: list[tuple[float, float]] = field(default_factory=list)
    """Unix times from and to which some process or filesystem was held up by a fault."""
    believed: float = 0.0
    """Seconds for which whoever merges may not see a report that is there."""
    complaints: list[str] = field(default_factory=list)
    """What was wrong at the moment of looking."""

    def held(self, start: float, end: float) -> float:
        """Seconds between two moments in which something was held up."""
        return sum(max(0.0, min(end, to) - max(start, since)) for since, to in self.stops)


class Observer:
    """Looks at one run folder until it is closed."""

    def __init__(self, path: Path) -> None:
        self.past = Past()
        self._path = path
        folder = RunFolder.open(path)
        self._board: BoardFile = folder.board
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._generation, self._read = -1, 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look once more, and no more."""
        self._ended.set()
        self._thread.join()
        self.look()

    @contextmanager
    def still(self) -> Iterator[Past]:
        """All that was seen up to now, to which nothing is added while the body runs.

        Else a generation may be there whose report the observer has not come to yet.
        """
        with self._lock:
            self.look()
            yield self.past

    def look(self) -> None:
        """Take in what is new. Whoever is about to damage a file calls this first."""
        with self._lock:
            self._look_at_generations()
            self._look_at_reports()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
                if time.monotonic() - self._read > READ_SECONDS:
                    self._read = time.monotonic()
                    self._read_as_newcomer()
            except Exception as error:  # a thread that ends silently would check nothing
                self.past.complaints.append(f"the observer: {error!r}")

    def _look_at_generations(self) -> None:
        seen = self.past.generations
        while True:
            path = self._board.path(len(seen))
            try:
                data, appeared = path.read_bytes(), path.stat().st_ctime
            except FileNotFoundError:
                break
            if data == EMPTIED:
                self.past.complaints.append(f"{path.name} was emptied before anybody read it")
            seen.append(SeenGeneration(data, appeared))

    def _look_at_reports(self) -> None:
        for folder in _folders(self._path / "reports"):
            for entry in _files(folder):
                order = entry.name.removesuffix(".json")
                if entry.name.startswith(".") or order in self.past.reports:
                    continue
                path = Path(entry.path)
                try:
                    data, appeared = path.read_bytes(), path.stat().st_ctime
                except FileNotFoundError:
                    self.past.complaints.append(f"the report {order} has vanished")
                    continue
                self.past.reports[order] = SeenReport(_sound(data, path), appeared)

    def _read_as_newcomer(self) -> None:
        """Promise: whatever happens, anybody can read the board, and nobody reads backwards."""
        folder = RunFolder.open(self._path)
        try:
            read_board(folder)
            found = folder.board.read()
        except HpcpodError as error:
            self.past.complaints.append(f"the board can't be read: {error}")
            return
        number = -1 if found is None else found[0]
        if number < self._generation:
            self.past.complaints.append(f"generation {number} was read after {self._generation}")
        self._generation = max(number, self._generation)


def _sound(data: bytes, path: Path) -> Report | None:
    try:
        return unpack_record(Report, data, path)
    except Corrupt:
        return None


def _folders(home: Path) -> list[Path]:
    return [Path(entry.path) for entry in _files(home) if entry.is_dir()]


def _files(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []

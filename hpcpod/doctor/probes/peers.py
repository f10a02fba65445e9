"""Visibility between two tasks of one job, on two nodes, through the run's filesystem.

Each does its part and asks the other by files of their own names; what one says the other hears
as soon as the filesystem shows it. A task that is not heard in time ends the exchange: that is a
finding, too.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcpod.doctor.probes.files import fill, keeps
from hpcpod.doctor.probes.locks import KINDS, trying
from hpcpod.doctor.probes.machine import boot_id, node_name
from hpcpod.errors import HpcpodError
from hpcpod.records.codec import encode
from hpcpod.storage.disk import Disk, Scheme, explain

HEAR_SECONDS = 60.0
"""Wait for a word of the other task's. Names on NFS may stay unseen for half a minute."""
START_SECONDS = 60.0
"""The same for its first word: the other may start much later."""
NAMES = 20
"""Names that both publish, as two coordinators would publish a board."""
REPLACED = 50
"""Times that a file is replaced while the other reads it."""

_PINGS = 5


class Unheard(Exception):
    """The other task's word was not seen in time."""


@dataclass(frozen=True)
class PairFacts:
    """Facts that one of the two tasks has seen."""

    task: int
    node: str
    boot: str
    error: str = ""
    """Failure that ended the exchange early; else empty."""
    ahead: float = 0.0
    """Seconds by which the other's clock is ahead of this one's. Task 0 alone measures it."""
    ahead_error: float = 0.0
    """Seconds by which that may be wrong."""
    seen_after: float = 0.0
    """Seconds after which a new name, asked for before it was there, was known to be seen."""
    locks: tuple[tuple[str, str], ...] = ()
    """Answer to this task, by the kind of lock: task 0 holds it first, task 1 tries while it is
    held, and then again (``kind again``)."""
    won: tuple[str, ...] = ()
    """The names that this task has published, of those that both tried."""
    read: tuple[str, ...] = ()
    """Content that it reads under each name then."""
    torn: int = 0
    """Reads of a file that was being replaced, and was missing or neither old nor new."""
    reads: int = 0
    kept: bool = False
    """The other's folder, which is not empty, refused that one is renamed onto it."""


def staying(folder: Path, scheme: Scheme = "link") -> Disk:
    """A disk that never makes this folder again: the doctor has removed it when it is done."""
    disk = Disk(scheme)
    disk.root = folder
    return disk


def leave(folder: Path, name: str, facts: object) -> None:
    """Write facts into a folder as ``NAME.json``, as long as it is there."""
    staying(folder).replace(folder / f"{name}.json", json.dumps(encode(facts)).encode())


class Exchange:
    """One side of a conversation by files."""

    def __init__(self, folder: Path, task: int, seconds: float = HEAR_SECONDS) -> None:
        self.folder = folder
        self.task = task
        self.seconds = seconds
        self.disk = staying(folder)

    def say(self, word: str, data: Any = None) -> None:
        """Let the other hear a word, with something in it."""
        path = self.folder / f"{self.task}-{word}.json"
        self.disk.replace(path, json.dumps([data]).encode(), durable=False)

    def hear(self, word: str, seconds: float | None = None) -> Any:
        """Wait for a word of the other's; what is in it.

        Raises:
            Unheard: it was not seen in time.
        """
        path = self.folder / f"{1 - self.task}-{word}.json"
        limit = self.seconds if seconds is None else seconds
        deadline, pause = time.monotonic() + limit, 0.001
        while True:
            if self.has_said(word):
                content = self.disk.read(path)
                with contextlib.suppress(ValueError):  # not all of it is seen yet
                    return json.loads(content or b"")[0]
            if time.monotonic() > deadline:
                other = "second" if self.task == 0 else "first"
                raise Unheard(
                    f"what the {other} task wrote ('{word}') was not seen within {limit:g} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def has_said(self, word: str) -> bool:
        """True if a word of the other's is there by now."""
        name = f"{1 - self.task}-{word}.json"
        # A listing opens the folder, and so has NFS ask its server for what is new.
        return name in {entry.name for entry in self.folder.iterdir()}


def meet(
    folder: Path,
    task: int,
    scheme: Scheme | None,
    seconds: float = HEAR_SECONDS,
    start_seconds: float = START_SECONDS,
) -> PairFacts:
    """Do one side of everything with the other task; what was seen.

    Args:
        folder: a new one, which both see.
        task: 0 or 1.
        scheme: how a run would publish names there; None if it can't.
        seconds: how long to wait for each word of the other's.
        start_seconds: the same for the first one.
    """
    exchange = Exchange(folder, task, seconds)
    facts = PairFacts(task, node_name(), boot_id())
    steps = [_clocks, _names, _locks, _replacing, _renaming]
    try:
        exchange.say("hello")
        exchange.hear("hello", start_seconds)
        for step in steps:
            facts = replace(facts, **step(exchange))
        if scheme is not None:
            facts = replace(facts, **_publishing(exchange, scheme))
    except (Unheard, HpcpodError) as error:
        return replace(facts, error=str(error))
    except OSError as error:
        return replace(facts, error=f"{error.filename or folder}: {explain(error)}")
    return facts


def _clocks(exchange: Exchange) -> dict[str, Any]:
    """A question and its answer bound the other's clock: the quickest of a few, the closest."""
    measured = []
    for number in range(_PINGS):
        if exchange.task == 1:
            exchange.hear(f"ping-{number}")
            exchange.say(f"pong-{number}", time.time())
            continue
        before = time.time()
        exchange.say(f"ping-{number}")
        theirs = exchange.hear(f"pong-{number}")
        after = time.time()
        measured.append(((after - before) / 2, theirs - (before + after) / 2))
    if not measured:
        return {}
    error, ahead = min(measured)
    return {"ahead": ahead, "ahead_error": error}


def _names(exchange: Exchange) -> dict[str, Any]:
    """Delay until a name is seen by a task that has asked before it was there, as slots do."""
    folder = exchange.folder / "names"
    late = folder / "late"
    if exchange.task == 0:
        folder.mkdir()
        exchange.say("folder")
        exchange.hear("asked")
        began = time.monotonic()
        exchange.disk.write_new(late, b"here")
        if not exchange.hear("found", 2 * exchange.seconds):
            raise Unheard(f"a new name was not seen within {exchange.seconds:g} s")
        return {"seen_after": time.monotonic() - began}
    exchange.hear("folder")
    disk = exchange.disk
    found = disk.exists(late)
    exchange.say("asked")  # NFS now remembers that there is no such name
    deadline = time.monotonic() + exchange.seconds
    while not found and time.monotonic() < deadline:
        time.sleep(0.005)
        found = disk.exists(late)
    exchange.say("found", found)
    return {}


def _locks(exchange: Exchange) -> dict[str, Any]:
    answers = []
    for kind in KINDS:
        path = exchange.folder / f"lock-{kind}"
        if exchange.task == 0:
            with trying(kind, path) as mine:
                exchange.say(f"{kind}-held")
                exchange.hear(f"{kind}-tried")
            exchange.say(f"{kind}-released")
            exchange.hear(f"{kind}-again")
            answers.append((kind, mine))
            continue
        exchange.hear(f"{kind}-held")
        with trying(kind, path) as theirs:
            answers.append((kind, theirs))
        exchange.say(f"{kind}-tried")
        exchange.hear(f"{kind}-released")
        with trying(kind, path) as after:
            answers.append((f"{kind} again", after))
        exchange.say(f"{kind}-again")
    return {"locks": tuple(answers)}


def _publishing(exchange: Exchange, scheme: Scheme) -> dict[str, Any]:
    """Both publish the same names at once: the race on which every promise of a run rests."""
    folder = exchange.folder / "board"
    disk = staying(exchange.folder, scheme)
    # By links 3 writers, stopped at random, lost none of 450 updates (ext4).
    disk.make_folder(folder)
    names = [str(number) for number in range(NAMES)]
    exchange.say("ready")
    exchange.hear("ready")
    content = f"by {exchange.task}".encode()
    won = tuple(name for name in names if disk.publish(folder / name, content))
    exchange.say("published")
    exchange.hear("published")
    found = [disk.read(folder / name) or b"nothing" for name in names]
    return {"won": won, "read": tuple(content.decode(errors="replace") for content in found)}


def _replacing(exchange: Exchange) -> dict[str, Any]:
    path, disk = exchange.folder / "changing", exchange.disk
    if exchange.task == 0:
        disk.replace(path, _content(0))
        exchange.say("changing")
        exchange.hear("looking")
        for number in range(1, REPLACED):
            disk.replace(path, _content(number), durable=False)
        exchange.say("changed")
        exchange.hear("looked")
        return {}
    exchange.hear("changing")
    exchange.say("looking")
    reads = torn = 0
    deadline = time.monotonic() + exchange.seconds
    while time.monotonic() < deadline:
        last = exchange.has_said("changed")
        content = disk.read(path)
        reads += 1
        torn += content is None or not _is_whole(content)
        if last:
            break
    exchange.say("looked")
    return {"reads": reads, "torn": torn}


def _content(number: int) -> bytes:
    """64 KiB that say in each of their parts which ones they are."""
    return f"{number:08d}".encode() * 8192


def _is_whole(content: bytes) -> bool:
    head = content[:8]
    return head.isdigit() and content == _content(int(head))


def _renaming(exchange: Exchange) -> dict[str, Any]:
    disk, kept = exchange.disk, exchange.folder / "kept"
    if exchange.task == 0:
        fill(disk, kept)
        exchange.say("filled")
        exchange.hear("renamed")
        return {}
    exchange.hear("filled")
    is_kept = keeps(disk, kept, exchange.folder / "other")
    exchange.say("renamed")
    return {"kept": is_kept}

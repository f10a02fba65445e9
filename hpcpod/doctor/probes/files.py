"""File operations as one machine sees them: publishing, replacing, locks, syncs, the clock.

``python -m hpcpod.doctor.probes.files FOLDER`` tries it and prints JSON: a process of its own,
for a filesystem whose server is away holds every process that asks it.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcpod.doctor.finding import Finding, decide
from hpcpod.doctor.probes.disk_space import SpaceFacts, measure_space
from hpcpod.doctor.probes.locks import KINDS, between_processes
from hpcpod.doctor.probes.locks import judge as judge_locks
from hpcpod.errors import StorageError
from hpcpod.records.codec import encode
from hpcpod.storage.disk import TEMPORARY, Disk, Scheme, explain, explained, probe, unique

GROUP = "run folder"
SLOW_SYNC = 0.2
"""Seconds of a synced write, above which it is worth knowing."""
CLOCK_NOTE, CLOCK_PROBLEM = 10.0, 90.0
"""Seconds between two clocks. A slot that has shown nothing for 180 s by the file's time is not
taken for alive, if no scheduler knows it; files two hours old that no board names are swept."""

_SYNCS = 5
_ASIDE = TEMPORARY + "doctor-"
_FORGOTTEN_SECONDS = 3600.0  # a younger one may be another doctor's, at work


@dataclass(frozen=True)
class FileFacts:
    """Facts of a filesystem, as seen from one machine."""

    folder: str
    """The folder in which it was tried: the runs' own, or the nearest above it that exists."""
    error: str
    """Failure that let nothing be tried; else empty, and the rest is true."""
    scheme: Scheme | None = None
    """Way in which a run would publish names; None if it can't."""
    scheme_error: str = ""
    replaced: bool = False
    """A file that is renamed onto another takes its place."""
    occupied: bool = False
    """A folder can't be renamed onto one that is not empty."""
    sync_seconds: float = 0.0
    """Of a small synced file with its name: the median."""
    locks: dict[str, str] | None = None
    """Worth of each kind of lock between two processes of this machine; see ``locks.summary``."""
    ahead: float = 0.0
    """Seconds by which its times are ahead of this machine's clock."""


@dataclass(frozen=True)
class HereFacts:
    """Facts that this process prints."""

    files: FileFacts
    space: SpaceFacts


def standing(folder: Path) -> Path:
    """The folder itself, or the nearest above it that exists; what is no folder, or a link to
    nowhere, stands in the way of a run too."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))


@contextlib.contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """A new folder inside this one, which goes with all that is in it.

    What a doctor who was killed has left here is removed too.

    Raises:
        StorageError: none can be made.
    """
    disk = Disk()
    for old in folder.glob(_ASIDE + "*"):
        with contextlib.suppress(OSError, StorageError):
            if old.stat().st_mtime < time.time() - _FORGOTTEN_SECONDS:
                disk.discard(old)
    home = folder / (_ASIDE + unique())
    with explained("write into", folder):
        disk.mkdir(home)
    try:
        yield home
    finally:
        _discard(disk, home)


def _discard(disk: Disk, home: Path) -> None:
    """Remove a folder; a process that was sent a signal may still write into it."""
    for _ in range(5):
        with contextlib.suppress(StorageError):
            disk.discard(home)
        if not os.path.lexists(home):
            return
        time.sleep(0.2)


def measure(folder: Path) -> FileFacts:
    """Try a filesystem inside a folder; whatever it refuses is in what is returned."""
    try:
        with workplace(folder) as home:
            return _measured(folder, home)
    except StorageError as error:
        return FileFacts(str(folder), str(error))
    except OSError as error:
        return FileFacts(str(folder), f"can't write into {folder}: {explain(error)}")


def _measured(folder: Path, home: Path) -> FileFacts:
    disk = Disk()
    scheme: Scheme | None = None
    scheme_error = ""
    try:
        scheme = probe(disk, home)
    except StorageError as error:
        scheme_error = str(error)
    fill(disk, home / "kept")
    return FileFacts(
        folder=str(folder),
        error="",
        scheme=scheme,
        scheme_error=scheme_error,
        replaced=_replaces(disk, home / "replaced"),
        occupied=keeps(disk, home / "kept", home / "other"),
        sync_seconds=statistics.median(_sync_seconds(disk, home / "synced") for _ in range(_SYNCS)),
        locks={kind: between_processes(kind, home / f"lock-{kind}") for kind in KINDS},
        ahead=clock_ahead(home / "clock"),
    )


def clock_ahead(path: Path) -> float:
    """Seconds by which a filesystem's time of a new file is ahead of this machine's clock."""
    before = time.time()
    Disk().write_new(path, b"now", durable=False)
    after = time.time()
    return path.stat().st_mtime - (before + after) / 2


def _replaces(disk: Disk, path: Path) -> bool:
    disk.replace(path, b"old")
    disk.replace(path, b"new")
    return disk.read(path) == b"new"


def fill(disk: Disk, folder: Path) -> None:
    """Make a folder that is not empty."""
    disk.mkdir(folder)
    disk.write_new(folder / "content", folder.name.encode())


def keeps(disk: Disk, kept: Path, other: Path) -> bool:
    """True if a folder that is not empty refuses that another one, made here, takes its name."""
    fill(disk, other)
    try:
        disk.rename(other, kept)
    except OSError:
        return disk.read(kept / "content") == kept.name.encode()
    return False


def _sync_seconds(disk: Disk, path: Path) -> float:
    began = time.monotonic()
    disk.replace(path, bytes(4096))
    return time.monotonic() - began


def judge(facts: FileFacts) -> list[Finding]:
    """Findings on a filesystem for a run that lies there."""
    if facts.error:
        then = "name another place for runs: --runs DIR, or HPCPOD_RUNS"
        return [Finding(GROUP, "writing", "problem", facts.error, then)]
    return [
        _publishing(facts),
        _replacing(facts),
        *judge_locks(GROUP, facts.locks or {}, "processes"),
        _syncing(facts.sync_seconds),
        judge_clock(GROUP, "clock", facts.ahead, "the filesystem", "this machine"),
    ]


def _publishing(facts: FileFacts) -> Finding:
    return decide(
        GROUP, "publishing",
        (facts.scheme == "link", "ok", "hard links work, and fail where the name is taken",
         "a name is published by a hard link"),
        (facts.scheme == "directory", "note",
         "no hard links, but a folder can't be renamed onto one that is not empty",
         "a name is published by renaming a folder onto it: the same promise, more files"),
        (True, "problem", facts.scheme_error,
         "no run can be made here: name another place for runs: --runs DIR, or HPCPOD_RUNS"),
    )  # fmt: skip


def _replacing(facts: FileFacts) -> Finding:
    replaced = "takes its place" if facts.replaced else "does not take its place"
    found = f"a file renamed onto another {replaced}; a folder onto one that is not empty "
    found += "fails" if facts.occupied else "does not fail"
    return decide(
        GROUP, "renaming",
        (facts.replaced, "ok", found, "what is replaced is seen old or new"),
        (True, "problem", found, "use another filesystem"),
    )  # fmt: skip


def _syncing(seconds: float) -> Finding:
    found = f"a small file and its name are on the disk in {1000 * seconds:.3g} ms"
    return decide(
        GROUP, "fsync",
        (seconds <= SLOW_SYNC, "ok", found, "whatever was reported survives a crash"),
        (True, "note", found,
         "each report costs some of them: let rounds take minutes (round.env_steps)"),
    )  # fmt: skip


def judge_clock(group: str, probe: str, ahead: float, one: str, other: str) -> Finding:
    """The finding on two clocks that differ by so many seconds."""
    found = f"{one} is {abs(ahead):.3g} s {'ahead of' if ahead > 0 else 'behind'} {other}"
    then = (
        "ages of files are wrong by as much: ask for the clocks to be set (NTP); slots that were"
        " started by hand may be taken for dead"
    )
    return decide(
        group, probe,
        (abs(ahead) < 0.05, "ok", f"{one} and {other} agree", ""),
        (abs(ahead) < CLOCK_NOTE, "ok", found, "nothing: ages are counted in minutes"),
        (abs(ahead) < CLOCK_PROBLEM, "note", found, then),
        (True, "problem", found, then),
    )  # fmt: skip


if __name__ == "__main__":
    place = standing(Path(sys.argv[1]))
    here = HereFacts(measure(place), measure_space(place))
    print(json.dumps(encode(here)))  # noqa: T201

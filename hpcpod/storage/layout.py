"""The layout of a run folder: names only, no files touched."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from hpcpod.errors import Corrupt

_SHA256 = re.compile(r"[0-9a-f]{64}")
SHARED = (
    "board",
    "reports",
    "decisions",
    "claims",
    "blobs",
    "pods",
    "curves",
    "slots",
    "lives",
    "engines",
    "lease",
    "quarantine",
)
"""Folders that all write into who merge or train, as far as the owner's umask lets them."""

CLOSED = ("intents", "control", "logs", "scripts", "rendezvous", "mirrors", "extensions")
"""Folders of the owner alone: what is in them is obeyed, submitted or connected to, and the
scheduler appends to logs whatever lies in their place, as loggers do to mirrors."""


def plain(name: str) -> str:
    """The name itself, if it can be a file's name.

    Raises:
        Corrupt: it can't: it is empty, hidden, too long, or holds a separator. Names of files come
            out of other files, which another user may have written.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # half a character, which JSON can hold
        size = 0
    # Of the 255 bytes that a filesystem takes, endings and marks of temporary files need some.
    if name.startswith(".") or not 0 < size <= 200 or "/" in name or "\0" in name:
        raise Corrupt(f"{name[:200]!r} can't be the name of a file")
    return name


def blob_name(sha256: str) -> str:
    """The checksum itself, if it is one.

    Raises:
        Corrupt: it is not.
    """
    if not _SHA256.fullmatch(sha256):
        raise Corrupt(f"{sha256[:200]!r} is no checksum of a blob")
    return sha256


def sharded(folder: Path, name: str, suffix: str = "") -> Path:
    """A place for one of very many names: 256 folders share them evenly."""
    # Sites with Lustre ask for a few hundred files in a folder.
    shard = hashlib.sha256(plain(name).encode()).hexdigest()[:2]
    return folder / shard / (name + suffix)


def blob_path(folder: Path, sha256: str) -> Path:
    """The place of a blob."""
    return folder / blob_name(sha256)[:2] / f"{sha256}.h5"


def log_name(slot: str, rank: int | None = None) -> str:
    """The file under ``logs`` that has what a slot says, or one of its pod's several ranks.

    Slots that share a GPU are one element of an array, and have one file.

    Raises:
        Corrupt: as ``plain``.
    """
    element = plain(slot.partition("+")[0])
    stem = f"slot-{element}" if element[:1].isdigit() else element  # Slurm's names are numbers
    return f"{stem}.log" if rank is None else f"{stem}-rank{rank}.log"

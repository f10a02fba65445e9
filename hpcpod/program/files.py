"""Files between hpcpod and a program: small JSON, written whole, and read with suspicion."""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 64 * 2**20
"""Bytes of a report: 128 returns take 3 kB."""

_GRANULE = 1 << 20
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Unreadable(ValueError):
    """A file of the program's that is not what it should be; says why, behind its name."""


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document under a name, whole: a reader never sees a part."""
    made = path.with_name(f".{path.name}")
    made.write_text(json.dumps(document))
    made.rename(path)


def read(path: Path) -> dict[str, Any] | None:
    """The document under a name; None if there is none.

    Raises:
        Unreadable: it is no JSON mapping, no regular file, or too large.
    """
    try:
        with _regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise Unreadable(f"has {size:,} bytes, more than {MOST_BYTES:,}")
            data = file.read(MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror}") from error
    return _mapping(data)


@contextlib.contextmanager
def _regular(path: Path) -> Iterator[BinaryIO]:
    """A regular file, opened for reading.

    Raises:
        Unreadable: it is something else.
        OSError: it can't be opened.
    """
    descriptor = os.open(path, _OPEN)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable("is no regular file")
        with open(descriptor, "rb", closefd=False) as file:  # of a folder it would leave it open
            yield file
    finally:
        os.close(descriptor)


def _mapping(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"is no JSON mapping but {type(found).__name__}")
    return found


def number(value: Any) -> bool:
    """True for a number of JSON's, NaN too, which Python writes."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Lines:
    """The lines of a file that a program appends to, as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._begun = b""

    def new(self) -> Iterator[dict[str, float]]:
        """The numbers of each new line; a line that is no mapping is passed over."""
        try:
            if self._path.stat().st_size <= self._at:
                return
            with _regular(self._path) as file:
                file.seek(self._at)
                data = file.read(_GRANULE)
        except (OSError, Unreadable):
            return
        self._at += len(data)
        *lines, self._begun = (self._begun + data).split(b"\n")
        self._begun = self._begun[-_GRANULE:]
        for line in lines:
            try:
                row = _mapping(line)
            except Unreadable:
                continue
            yield {
                name: float(value)
                for name, value in row.items()
                if number(value) and abs(value) < 1e300 and math.isfinite(value)
            }

"""Errors of a filesystem, in words."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from hpcpod.errors import StorageError

_WORDS = {
    errno.ENOSPC: "its filesystem is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EROFS: "its filesystem is mounted read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "the filesystem does not permit it",
    errno.ENOTDIR: "a part of this path is a file or a symbolic link, not a folder",
    errno.ENAMETOOLONG: "the name is too long for its filesystem",
    errno.EIO: "the filesystem reports an input/output error",
    errno.ESTALE: "the network filesystem has lost the file under our hands",
}


def explain(error: OSError) -> str:
    """The reason of a refusal, in words."""
    return _WORDS.get(error.errno or 0) or (error.strerror or str(error))


def may_exist(path: Path) -> bool:
    """True if there is such a file, or that is unknown: then opening it tells."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:  # also of a server that is away, which Path.exists of Python 3.14 takes for no
        return True
    return True


@contextlib.contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a ``StorageError`` of one sentence."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"can't {action} {path}: {explain(error)}") from error

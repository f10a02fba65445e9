"""Safe paths below a run folder: no link is followed, only regular files are read.

Others of a group may write into a shared run folder. A symbolic link in the place of a name would
have another user's process copy its own private files into the run, or write and remove them
elsewhere; a pipe would stop it for ever; a file without an end would take all memory. So no
link is followed, nothing but a regular file is read, and no more of it than can be meant.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hpcpod.errors import Corrupt

CONTENT = "content"
"""The file in a folder that stands for a published name."""

MOST_BYTES = 64 * 2**20
"""Of a file that is read whole, if nothing else is said: a report of a hundred thousand episodes
has a tenth of it."""

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""The bits of a mode by which others than the owner may write."""

_LARGE = 64 * 2**20
"""Bytes above which a checksum is known before anything is kept."""
_GRANULE = 2**24  # bytes of one read
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Linux's O_PATH opens a folder that this user may pass through, but not list.
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_NO_FILE = {errno.ELOOP, errno.ENXIO, errno.EMLINK}  # the last is FreeBSD's word for a link
"""The errors of opening a symbolic link or a socket."""


@contextlib.contextmanager
def at(root: Path | None, path: Path) -> Iterator[tuple[str | Path, int | None]]:
    """A name, and the descriptor of its folder, as ``dir_fd`` of the functions in ``os``.

    What lies directly in ``root`` belongs to the run's owner alone, and may be a link: the blobs
    may be on another disk. Paths outside of ``root`` are taken as they are.

    Raises:
        NotADirectoryError: a part of the path is a symbolic link.
    """
    inside = () if root is None or not path.is_relative_to(root) else path.relative_to(root).parts
    if root is None or len(inside) < 2:
        yield path, None
        return
    folder = os.open(root / inside[0], _FOLDER)
    try:
        for part in inside[1:-1]:
            outer, folder = folder, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(outer)
        yield inside[-1], folder
    finally:
        os.close(folder)


def content(
    root: Path | None, path: Path, most: int | None = MOST_BYTES, sha256: str | None = None
) -> bytes | None:
    """The whole content under a name, published by either scheme; None if there is none.

    Args:
        root: the folder below which no link is followed.
        path: of the name.
        most: bytes that it may have; None: any number.
        sha256: the checksum that it must have, if any.

    Raises:
        Corrupt: it has more, or another checksum, or is no regular file.
        OSError: the filesystem refuses.
    """
    with contextlib.ExitStack() as opened:
        try:
            name, folder = opened.enter_context(at(root, path))
        except FileNotFoundError:
            return None
        for place in (name, CONTENT):
            found = _open(place, folder, path)
            if found is None:
                return None
            opened.callback(os.close, found)
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                return _whole(found, path, most, sha256)
            folder = found
    raise Corrupt(f"{path} is a folder, not a file")


def status(root: Path | None, path: Path) -> os.stat_result | None:
    """The ``lstat`` of a name, asked by name and not of a listing; None if there is none.

    Raises:
        OSError: the filesystem refuses.
    """
    try:
        with at(root, path) as (name, folder):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def create(root: Path | None, path: Path) -> int:
    """Create a file that must not exist; its descriptor, to write to.

    The group may do with it what it may do with the folder it is in, if that is below ``root``,
    whatever the umask: a member with a stricter one would lock the others out of a run, and what
    is in a folder of the owner's alone is the owner's alone.
    """
    with at(root, path) as (name, folder):
        closed = _closed(path.parent.stat() if folder is None else os.fstat(folder))
        descriptor = os.open(name, _CREATE, 0o666 & ~closed, dir_fd=folder)
        _share(descriptor, folder, 0o060)
        return descriptor


def make_folder(root: Path | None, path: Path) -> None:
    """Create a folder; as ``create`` does, but right in ``root``, which is the owner's alone,
    folders may be open."""
    with at(root, path) as (name, folder):
        if folder is None:
            path.mkdir()
            return
        os.mkdir(name, 0o777 & ~_closed(os.fstat(folder)), dir_fd=folder)
        made = os.open(name, _READ_FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _share(made, folder, 0o070)
        finally:
            os.close(made)


def _closed(folder: os.stat_result) -> int:
    """The bits of a mode by which others could write, where they can't write into the folder."""
    return OTHERS_WRITE & ~folder.st_mode


def _share(made: int, folder: int | None, bits: int) -> None:
    if folder is None:
        return
    mode, group = os.fstat(made).st_mode, os.fstat(folder).st_mode & bits
    if group & ~mode:
        with contextlib.suppress(PermissionError):  # a filesystem without modes
            os.fchmod(made, stat.S_IMODE(mode) | group)  # no umask holds for this


def read_open(name: str, folder: int, path: Path) -> tuple[bytes, os.stat_result] | None:
    """A file in a folder that is open, and what ``fstat`` says of it; None if there is none.

    Args:
        name: of the file.
        folder: descriptor of the folder.
        path: what an error calls the file.

    Raises:
        Corrupt: it is no regular file, or has more than ``MOST_BYTES``.
        OSError: the filesystem refuses.
    """
    found = _open(name, folder, path)
    if found is None:
        return None
    try:
        return _whole(found, path, MOST_BYTES, None), os.fstat(found)
    finally:
        os.close(found)


def _open(name: str | Path, folder: int | None, path: Path) -> int | None:
    # Without waiting: a pipe has no process at its other end.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(name, flags | (0 if folder is None else os.O_NOFOLLOW), dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NO_FILE:
            raise Corrupt(f"{path} is a symbolic link or a socket, not a file") from error
        if error.errno == errno.EACCES and _withheld(name, folder):  # it stopped every tick
            raise Corrupt(f"{path} is another user's, who lets no other user read it") from error
        raise


def _withheld(name: str | Path, folder: int | None) -> bool:
    """Look whether another user keeps a file from all others. A server that lets no user in, for
    the moment, is another matter."""
    if folder is None:
        return False
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return found.st_uid != os.geteuid() and not found.st_mode & (stat.S_IRGRP | stat.S_IROTH)


def _whole(descriptor: int, path: Path, most: int | None, sha256: str | None) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Corrupt(f"{path} is no regular file")
    if most is not None and found.st_size > most:
        raise Corrupt(f"{path} has {found.st_size} bytes, and nothing of its kind over {most}")
    if sha256 is not None and found.st_size > _LARGE:
        digest = hashlib.sha256()
        for part in _parts(descriptor, found.st_size):
            digest.update(part)
        if digest.hexdigest() != sha256:
            raise _mismatch(path)
        os.lseek(descriptor, 0, os.SEEK_SET)
    data = b"".join(_parts(descriptor, found.st_size))
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise _mismatch(path)
    return data


def _parts(descriptor: int, size: int) -> Iterator[bytes]:
    """The content of a file, to the end that it had when it was opened."""
    while size > 0 and (part := os.read(descriptor, min(size, _GRANULE))):
        size -= len(part)
        yield part


def _mismatch(path: Path) -> Corrupt:
    return Corrupt(f"{path} does not match its checksum")

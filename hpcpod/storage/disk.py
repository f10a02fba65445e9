"""The disk: the one way in which hpcpod changes the shared filesystem.

Everything that hpcpod writes into a run folder goes through a ``Disk``: first its *operations*,
each one change of the filesystem, which a test may override to fail or to die; then three ways of
writing, each of which leaves nothing or the complete content under the final name, when killed.

========================  =============================================================
``publish(path, data)``   compare-and-swap: create this name, once and for all
``replace(path, data)``   the one writer of a file puts a new content in its place
``overwrite(path, data)`` a published name keeps its name and gets another content
========================  =============================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, TypeVar

from hpcpod.errors import Corrupt, RunNotFound, StorageError, UserError
from hpcpod.storage import safe_paths
from hpcpod.storage.os_errors import explain as explain
from hpcpod.storage.os_errors import explained as explained
from hpcpod.storage.safe_paths import CONTENT, MOST_BYTES

Scheme = Literal["link", "directory"]
"""The way to publish a name: by a hard link, or by renaming a non-empty folder onto it."""

TEMPORARY = ".tmp-"
"""Start of every temporary file's name; no reader takes one, ``prune`` removes old ones."""

_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_T = TypeVar("_T")
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # where folders can't be synced
# link(2) says the first; rename(2) onto a folder any of them, by the filesystem.
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}


def unique() -> str:
    """A name that no other process uses: host, process, random."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(6).hex()}"


class Disk:
    """Reads and writes of whole files on a filesystem shared by processes that may die.

    Safe for any number of processes on any number of hosts; below ``root`` no link is followed (see
    ``safe_paths``). What is done survives a crash of the machine, unless ``durable`` is false.
    """

    def __init__(self, scheme: Scheme = "link") -> None:
        self.scheme: Scheme = scheme
        self.root: Path | None = None
        """A folder that is never made again: a run that was deleted stays deleted."""

    # The operations: each changes the filesystem once, and raises OSError.

    def write_new(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """Create a file that must not exist, and fill it."""
        descriptor = safe_paths.create(self.root, path)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]  # write(2) may take a part
            if durable:
                os.fsync(descriptor)  # a report: 0.7 ms on ext4, 10 ms beside a busy disk
        finally:
            os.close(descriptor)

    def sync(self, folder: Path) -> None:
        """Make the names in a folder survive a crash of the machine."""
        with self._at(folder) as (name, above):
            flags = _READ_FOLDER | (0 if above is None else os.O_NOFOLLOW)
            descriptor = os.open(name, flags, dir_fd=above)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; fails if that name exists."""
        with self._at(source) as (old, here), self._at(target) as (new, there):
            # On ext4 three writers, stopped at random, lost none of 450 updates by it.
            os.link(old, new, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file or a folder; replaces a file, fails on a folder that isn't empty."""
        with self._at(source) as (old, here), self._at(target) as (new, there):
            os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        with self._at(path) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def mkdir(self, path: Path) -> None:
        """Create a folder."""
        safe_paths.make_folder(self.root, path)

    def close(self, folder: Path) -> None:
        """Let only the owner write into a folder."""
        with contextlib.suppress(PermissionError):  # a filesystem without modes
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~safe_paths.OTHERS_WRITE)

    def rmdir(self, path: Path) -> None:
        """Remove an empty folder."""
        with self._at(path) as (name, folder):
            os.rmdir(name, dir_fd=folder)

    def touch(self, path: Path) -> None:
        """Set a file's time to now."""
        with self._at(path) as (name, folder):
            os.utime(name, dir_fd=folder, follow_symlinks=False)

    # Reading.

    def read(
        self, path: Path, most: int | None = MOST_BYTES, sha256: str | None = None
    ) -> bytes | None:
        """The whole content under a name, as by ``safe_paths.content``; None if there is none.

        Raises:
            Corrupt: it is no file, has more than ``most`` bytes or another checksum.
            StorageError: the filesystem refuses.
        """
        with explained("read", path):
            return _again({errno.ESTALE}, lambda: safe_paths.content(self.root, path, most, sha256))

    def exists(self, path: Path) -> bool:
        """Look whether the name exists, by name and not in a listing that may be old."""
        try:
            return safe_paths.status(self.root, path) is not None
        except OSError:
            return False

    def status(self, path: Path) -> os.stat_result | None:
        """The ``lstat`` of what is under a name, published by either scheme; None if nothing is."""
        with explained("look at", path):
            found = safe_paths.status(self.root, path)
            if found is not None and stat.S_ISDIR(found.st_mode):
                found = safe_paths.status(self.root, path / CONTENT)
            return found

    def size(self, path: Path) -> int | None:
        """Bytes under a name, published by either scheme; None if there is none."""
        found = self.status(path)
        return None if found is None else found.st_size

    # Writing.

    def publish(self, path: Path, data: bytes, *, durable: bool = True) -> bool:
        """Create this name with this complete content, unless the name exists.

        Of any number of processes that publish under one name exactly one gets True, unless their
        contents are equal: then a True may be a success whose reply the network lost, which looks
        like a loss to link(2). A writer that must know which it was has its id in the content.

        Raises:
            StorageError: the filesystem refuses; nothing is visible under the name.
        """

        def attempt() -> bool:
            try:
                self._publish_once(path, data, durable)
            except OSError:
                # What is there decides, not the errno: NFS may answer EEXIST, ENOENT or
                # EIO to a retransmitted request that had succeeded the first time.
                same = self._holds(path, data)
                if same is None:
                    raise
                if not same:
                    return False
            if durable:
                self.sync(path.parent)
            return True

        return self._persist("publish", path, attempt)

    def replace(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """Put this content under a name in one step; readers see the old or the new one.

        For files with one writer: of two, the later one would win.

        Raises:
            StorageError: the filesystem refuses; the old content stands.
        """

        def attempt() -> None:
            with self._beside(path.parent, data, durable) as temporary:
                self.rename(temporary, path)
            if durable:
                self.sync(path.parent)

        self._persist("write", path, attempt)

    def overwrite(self, path: Path, data: bytes) -> None:
        """Replace what a published name holds; the name is never free in between."""
        target = path / CONTENT if path.is_dir() else path

        def attempt() -> None:
            with self._beside(path.parent, data, durable=False) as temporary:
                self.rename(temporary, target)

        self._persist("write", path, attempt)

    def remove(self, path: Path) -> bool:
        """Free a name, published by either scheme; whether it was there."""
        with explained("remove", path):
            try:
                if path.is_dir() and not path.is_symlink():
                    aside = path.parent / (TEMPORARY + unique())
                    self.rename(path, aside)
                    self._discard(aside)
                else:
                    self.unlink(path)
            except FileNotFoundError:
                return False
            return True

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents, where they are missing."""
        with explained("create the folder", path):
            self._make_folder(path)

    def discard(self, temporary: Path) -> None:
        """Remove a temporary file, or folder of files, of any process."""
        with explained("remove", temporary):
            self._discard(temporary)

    def _at(self, path: Path) -> AbstractContextManager[tuple[str | Path, int | None]]:
        return safe_paths.at(self.root, path)

    def _publish_once(self, path: Path, data: bytes, durable: bool) -> None:
        if self.scheme == "link":
            with self._beside(path.parent, data, durable) as temporary:
                self.link(temporary, path)
            return
        temporary = path.parent / (TEMPORARY + unique())
        try:
            self._in_folder(path.parent, lambda: self.mkdir(temporary), durable)
            self.write_new(temporary / CONTENT, data, durable=durable)
            if durable:
                self.sync(temporary)
            self.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._discard(temporary)
            raise

    @contextlib.contextmanager
    def _beside(self, folder: Path, data: bytes, durable: bool) -> Iterator[Path]:
        """A temporary file with this content; it is gone afterwards."""
        made = folder / (TEMPORARY + unique())
        try:
            self._in_folder(folder, lambda: self.write_new(made, data, durable=durable), durable)
            yield made
        finally:
            if os.path.lexists(made):
                with contextlib.suppress(OSError):
                    self.unlink(made)

    def _in_folder(self, folder: Path, create: Callable[[], None], durable: bool) -> None:
        try:
            create()
        except FileNotFoundError:
            self._make_folder(folder, durable)
            create()

    def _make_folder(self, path: Path, durable: bool = True) -> None:
        if path.is_dir():
            return
        if path == self.root:
            raise RunNotFound(f"the run folder {path} is gone")
        self._make_folder(path.parent, durable)
        with contextlib.suppress(FileExistsError):
            self.mkdir(path)
        if durable:
            self.sync(path.parent)

    def _discard(self, temporary: Path) -> None:
        if temporary.is_dir() and not temporary.is_symlink():
            for inner in temporary.iterdir():
                self._discard(inner)
            self.rmdir(temporary)
        else:
            self.unlink(temporary)

    def _holds(self, path: Path, data: bytes) -> bool | None:
        """Look whether a name has this content; None if there is no such name."""
        try:
            # Stale: a process on another host replaced the file between our open and our read.
            there = _again({errno.ESTALE}, lambda: safe_paths.content(self.root, path, len(data)))
        except Corrupt:
            return False
        return None if there is None else there == data

    def _persist(self, action: str, path: Path, attempt: Callable[[], _T]) -> _T:
        # Missing: our temporary file was pruned. Taken: the name was, but is free again already.
        with explained(action, path):
            return _again({errno.ENOENT, errno.ESTALE, *_TAKEN}, attempt)


def check_writable(path: Path, *, overwrite: bool) -> None:
    """See whether a file could be written, before the work whose result it is for.

    Its folder must be there: one that is not is more likely a slip than a wish.

    Raises:
        UserError: it could not, or is there and is not to be overwritten.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"can't write {path}: it is there already, and is no file")
        if path.exists() and not overwrite:
            raise UserError(
                f"can't write {path}: it is there already; take another name, or say --overwrite"
                " (overwrite=True in Python)"
            )
        if not path.absolute().parent.exists():
            raise UserError(f"can't write {path}: there is no folder {path.parent}")
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise UserError(f"can't write {path}: {explain(error)}") from error


def _again(passing: set[int], attempt: Callable[[], _T], tries: int = 4) -> _T:
    try:
        return attempt()
    except OSError as error:
        if tries == 1 or error.errno not in passing:
            raise
    return _again(passing, attempt, tries - 1)


def probe(disk: Disk, folder: Path) -> Scheme:
    """The scheme by which names can be published in a folder, found by trying.

    Some filesystems refuse hard links, some make a symbolic link instead.

    Raises:
        StorageError: the folder can't be written, or its filesystem keeps neither promise.
    """
    home = folder / (TEMPORARY + unique())
    first, second, taken = home / "first", home / "second", home / "taken"
    with explained("write into", folder):
        disk.mkdir(home)
        try:
            disk.write_new(first, b"1")
            disk.write_new(taken, b"2")
            if _links_swap(disk, first, second, taken):
                return "link"
            if _folders_swap(disk, home):
                return "directory"
        finally:
            with contextlib.suppress(OSError, StorageError):
                disk.discard(home)
    raise StorageError(
        f"the filesystem of {folder} can't publish a file safely: it has no hard links, and"
        " renaming a folder onto one that isn't empty does not fail; use another filesystem"
    )


def _links_swap(disk: Disk, first: Path, second: Path, taken: Path) -> bool:
    try:
        disk.link(first, second)
        # On BeeGFS a hard link may be a symbolic one.
        linked = not second.is_symlink() and first.samefile(second)
        refused = _refused(lambda: disk.link(first, taken))
        return linked and refused and taken.read_bytes() == b"2"
    except OSError:
        return False


def _folders_swap(disk: Disk, home: Path) -> bool:
    for name in ("a", "b"):
        disk.mkdir(home / name)
        disk.write_new(home / name / CONTENT, name.encode())
    refused = _refused(lambda: disk.rename(home / "a", home / "b"))
    return refused and (home / "b" / CONTENT).read_bytes() == b"b"


def _refused(operation: Callable[[], None]) -> bool:
    try:
        operation()
        return False
    except OSError as error:
        return error.errno in _TAKEN

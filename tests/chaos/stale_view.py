"""A folder as one client of a network filesystem sees it at its worst: by FUSE, as a process.

``python -m tests.chaos.stale_view FOLDER MOUNTPOINT SETTINGS``. The client believes attributes,
listings and missing names for seconds, whatever other clients do meanwhile. Its own changes it sees
at once, and a folder in which it has made one it reads anew. To open a file that is there asks
the server for its attributes; to open a folder asks nobody. ``SETTINGS`` is a JSON file of
``Settings``, which may change while this runs. Locks hold on this mount alone.
"""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mfusepy

NOW = 10**15
"""Nanoseconds; FUSE says by a small number, and by UTIME_NOW, that a time is to be the server's."""


@dataclass(frozen=True)
class Settings:
    """How bad it is."""

    attributes: float = 3.0
    """Seconds for which a file's attributes are believed."""
    names: float = 30.0
    """Seconds for which a listing is, a folder's attributes, and that there is no such name."""
    lost: float = 0.0
    """Share of changes of names that are made, and of which the reply is lost."""
    skew: float = 0.0
    """Seconds by which the server's clock is ahead of this machine's."""


class Memory:
    """What the client was told, and when. For one thread at a time."""

    def __init__(self) -> None:
        self.attributes: dict[str, tuple[float, dict[str, int]]] = {}
        self.listings: dict[str, tuple[float, list[Any]]] = {}
        self.missing: dict[str, float] = {}

    def forget(self, path: str) -> None:
        """A name was changed by this client: all that it knows of it, of what is below it, and of
        the folder that it is in."""
        folder = _folder_of(path)
        for known in (self.attributes, self.listings, self.missing):
            for name in [n for n in known if n == path or n.startswith(f"{path}/")]:
                del known[name]
        for name in [n for n in self.missing if _folder_of(n) == folder]:
            del self.missing[name]
        self.attributes.pop(folder, None)
        self.listings.pop(folder, None)


class View(mfusepy.Operations):  # type: ignore[misc]
    """The operations of the filesystem."""

    use_ns = True

    def __init__(self, folder: str, settings: Path) -> None:
        self._folder, self._file = folder, settings
        self._settings, self._read_again = Settings(), 0.0
        self._memory, self._lock = Memory(), threading.RLock()
        self._removed: set[str] = set()
        self._random = random.Random(str(settings))

    # Looking

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        now, bad = time.monotonic(), self._now_set()
        with self._lock:
            when, known = self._memory.attributes.get(path, (0.0, None))
            if known is not None:
                believed = bad.names if stat.S_ISDIR(known["st_mode"]) else bad.attributes
                if now - when < believed:
                    return known
            self._check_missing(path, now)
        return self._ask(path)

    def readdir(self, path: str, fh: int) -> list[Any]:
        now, bad = time.monotonic(), self._now_set()
        with self._lock:
            when, known = self._memory.listings.get(path, (0.0, None))
            if known is not None and now - when < bad.names:
                return known
        listing = [(name, {"st_mode": stat.S_IFDIR, "st_ino": 1}, 0) for name in (".", "..")]
        with os.scandir(self._folder + path) as entries:
            for entry in entries:
                kind = stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG
                listing.append((entry.name, {"st_mode": kind, "st_ino": entry.inode()}, 0))
        with self._lock:
            self._memory.listings[path] = (now, listing)
        return listing

    def readlink(self, path: str) -> str:
        return os.readlink(self._folder + path)  # noqa: PTH115

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._folder)
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}

    def _ask(self, path: str) -> dict[str, int]:
        """A name's attributes, as the server has them now."""
        try:
            found = os.lstat(self._folder + path)
        except FileNotFoundError:
            with self._lock:
                self._memory.attributes.pop(path, None)
                self._memory.missing[path] = time.monotonic()
            raise
        ahead = int(self._settings.skew * 1e9)
        plain = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino")
        told = {name: getattr(found, name) for name in plain}
        for name in ("st_atime", "st_mtime", "st_ctime"):
            told[name] = getattr(found, f"{name}_ns") + ahead
        with self._lock:
            self._memory.attributes[path] = (time.monotonic(), told)
            self._memory.missing.pop(path, None)
        return told

    def _check_missing(self, path: str, now: float) -> None:
        if now - self._memory.missing.get(path, -1e9) < self._settings.names:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    def _now_set(self) -> Settings:
        if time.monotonic() >= self._read_again:
            self._read_again = time.monotonic() + 0.2
            self._settings = Settings(**json.loads(self._file.read_text()))
        return self._settings

    # Files

    def open(self, path: str, flags: int) -> int:
        with self._lock:
            self._now_set()
            self._check_missing(path, time.monotonic())
        self._ask(path)
        return os.open(self._folder + path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_APPEND))

    def create(self, path: str, mode: int, flags: int) -> int:
        made = os.open(self._folder + path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        try:
            self._changed(path, errno.EEXIST)
        except OSError:
            os.close(made)
            raise
        return made

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        if os.fstat(fh).st_nlink == 0 and path not in self._removed:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        written = os.pwrite(fh, data, offset)
        with self._lock:
            self._memory.attributes.pop(path, None)
        return written

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._folder + path, length)
        return self._seen(path)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    # Names

    def link(self, target: str, source: str) -> int:
        os.link(self._folder + source, self._folder + target, follow_symlinks=False)
        self._seen(source)
        return self._changed(target, errno.EEXIST)

    def rename(self, old: str, new: str) -> int:
        os.rename(self._folder + old, self._folder + new)  # noqa: PTH104
        self._seen(new)
        return self._changed(old, errno.ENOENT)

    def unlink(self, path: str) -> int:
        os.unlink(self._folder + path)  # noqa: PTH108
        self._removed.add(path)
        return self._changed(path, errno.ENOENT)

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._folder + path, mode)  # noqa: PTH102
        return self._changed(path, errno.EEXIST)

    def rmdir(self, path: str) -> int:
        os.rmdir(self._folder + path)  # noqa: PTH106
        return self._changed(path, errno.ENOENT)

    def symlink(self, target: str, source: str) -> int:
        os.symlink(source, self._folder + target)  # noqa: PTH211
        return self._seen(target)

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._folder + path, mode)  # noqa: PTH101
        return self._seen(path)

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.lchown(self._folder + path, uid, gid)
        return self._seen(path)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        now, ahead = time.time_ns(), int(self._settings.skew * 1e9)
        asked = times or (0, 0)
        given = tuple(now if abs(each) < NOW else each - ahead for each in asked)
        os.utime(self._folder + path, ns=(given[0], given[1]), follow_symlinks=False)
        return self._seen(path)

    def _seen(self, path: str) -> int:
        """This client has changed a name, and knows it."""
        with self._lock:
            self._memory.forget(path)
        return 0

    def _changed(self, path: str, repeated: int) -> int:
        """The same; but the reply may be lost. ``repeated``: what the request says when the
        client has sent it once more."""
        self._seen(path)
        if self._random.random() < self._now_set().lost:
            code = self._random.choice([repeated, errno.EIO, errno.ETIMEDOUT])
            raise OSError(code, os.strerror(code))
        return 0


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def main(folder: str, mountpoint: str, settings: str) -> None:
    """Mount it, and serve until it is unmounted."""
    mfusepy.FUSE(
        View(folder, Path(settings)), mountpoint, foreground=True, nothreads=False,
        allow_other=True, default_permissions=True, direct_io=True, use_ino=True,
        attr_timeout=0, entry_timeout=0, negative_timeout=0,
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Disks that die or refuse at a chosen operation, and real child processes to die in."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hpcpod.storage.disk import Disk

Moment = Literal["before", "during", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
DEAD = 9


class WatchedDisk(Disk):
    """Every operation goes through ``operate``."""

    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        operation()

    def write_new(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        def write() -> None:
            super(WatchedDisk, self).write_new(path, data, durable=durable)

        self.operate("write_new", path, write)

    def sync(self, folder: Path) -> None:
        self.operate("sync", folder, lambda: super(WatchedDisk, self).sync(folder))

    def link(self, source: Path, target: Path) -> None:
        self.operate("link", target, lambda: super(WatchedDisk, self).link(source, target))

    def rename(self, source: Path, target: Path) -> None:
        self.operate("rename", target, lambda: super(WatchedDisk, self).rename(source, target))

    def unlink(self, path: Path) -> None:
        self.operate("unlink", path, lambda: super(WatchedDisk, self).unlink(path))

    def mkdir(self, path: Path) -> None:
        self.operate("mkdir", path, lambda: super(WatchedDisk, self).mkdir(path))

    def rmdir(self, path: Path) -> None:
        self.operate("rmdir", path, lambda: super(WatchedDisk, self).rmdir(path))

    def touch(self, path: Path) -> None:
        self.operate("touch", path, lambda: super(WatchedDisk, self).touch(path))


class NoLinks(WatchedDisk):
    """A filesystem without hard links, as some BeeGFS and FAT ones are."""

    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        if name == "link":
            raise PermissionError(errno.EPERM, "no hard links here")
        operation()


class DyingDisk(WatchedDisk):
    """Ends the process, without any cleaning up, at the k-th operation."""

    def __init__(self, at: int, moment: Moment) -> None:
        super().__init__()
        self.at = at
        self.moment = moment
        self.count = 0

    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        mine = self.count == self.at
        self.count += 1
        if mine and self.moment == "before":
            os._exit(DEAD)
        operation()
        if mine and self.moment == "during" and name == "write_new":
            # As though the process had died when half of the bytes were written.
            os.truncate(path, path.stat().st_size // 2)
        if mine:
            os._exit(DEAD)


class DyingWithoutLinks(DyingDisk):
    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        if name == "link":
            raise PermissionError(errno.EPERM, "no hard links here")
        super().operate(name, path, operation)


class RefusingDisk(WatchedDisk):
    """Refuses the named operations while ``code`` is set."""

    def __init__(self, code: int, *operations: str) -> None:
        super().__init__()
        self.code = code
        self.operations = operations

    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        if self.code and name in self.operations:
            raise OSError(self.code, os.strerror(self.code))
        operation()


class LostReply(WatchedDisk):
    """The operation succeeds, and the answer says otherwise: NFS after a retransmission."""

    def __init__(self, code: int, *operations: str) -> None:
        super().__init__()
        self.code = code
        self.operations = operations

    def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
        operation()
        if name in self.operations:
            raise OSError(self.code, os.strerror(self.code))


def start(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def finish(pid: int) -> int:
    """Wait for a process; its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process; return its exit code."""
    return finish(start(work))

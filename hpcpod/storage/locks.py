"""File locks that save lost races; no promise depends on them.

File locks differ between Lustre, GPFS, BeeGFS and NFS, and some lie. So a process without the
lock may go on all the same: compare-and-swap decides what counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from hpcpod.storage.disk import explained

if TYPE_CHECKING:
    from filelock import SoftFileLease

LEASE_SECONDS = 90.0
"""Seconds for which a coordinator must show no life before another one takes over."""

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def file_lock(path: Path, timeout: float) -> Iterator[bool | None]:
    """Hold a lock, waiting at most ``timeout`` seconds for it; whether it is held.

    False says that another process holds it, None that this filesystem has no locks. The body
    runs in any case: the holder may be a process that is stopped.
    """
    # Imported here: a look at the status of a run takes no lock, and filelock takes 60 ms.
    from filelock import FileLock, Timeout

    # Without a soft lock in its place, which filelock 4 takes on ENOSYS (Lustre's noflock): a node
    # that dies with one would block all for ever.
    held: bool | None = False
    try:
        # filelock would make the folder, and so bring a deleted run back.
        folder = path.parent.stat()
        mode = 0o600 | folder.st_mode & 0o060  # by the umask alone a member locked the others out
        lock = FileLock(path, mode=mode, fallback_to_soft=False)
        lock.acquire(timeout=timeout, poll_interval=0.02)  # s
        held = True
    except Timeout:
        _log.info("%s is held by another process for over %g s; going on without it", path, timeout)
    except (OSError, NotImplementedError) as error:
        _log.debug("%s can't be locked (%s); going on without it", path, error)
        held = None
    try:
        yield held
    finally:
        if held:
            with contextlib.suppress(OSError):
                lock.release()


def is_held(path: Path) -> bool | None:
    """Look whether a process holds a file lock; None if unknown.

    Only looks: it makes no file, and needs no right to write one. It shares the lock for an
    instant, so a process that takes it for good should try for longer than that.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # another user's pipe
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Of this node alone on Lustre with localflock and on NFS with local_lock or nolock.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


class Lease:
    """A lock with a heartbeat: taken over when its holder shows no life for ``seconds``.

    The holder shows life by a thread. A contender on the same host takes it over from a
    dead process at once; on another host it must have looked through this same object for
    ``seconds``, since it trusts no clock but its own. A holder that was stopped and wakes
    up doesn't know: it is a hint of who should work, no guarantee that only one does.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._lease: SoftFileLease | None = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """Try once, without waiting; whether it is ours. A filesystem that has none says yes."""
        from filelock import LeaseSettingsMismatch, SoftFileLease, Timeout

        held = True
        # Its token names a claim, and fences none: see SoftFileLease's docstring.
        lease = self._lease = self._lease or SoftFileLease(self._path, lease_duration=self._seconds)
        try:
            self._path.parent.stat()  # as in ``file_lock``
            lease.acquire(blocking=False)
        except (Timeout, LeaseSettingsMismatch):  # held for another lease_duration
            held = False
        except OSError as error:
            _log.warning("%s can't be taken (%s); going on without it", self._path, error)
        try:
            yield held
        finally:
            if lease.is_locked:
                with contextlib.suppress(OSError):
                    lease.release()


class Locks:
    """The locks of a run: they save work that would be lost, no promise depends on them."""

    def __init__(self, folder: Path) -> None:
        self._merge = folder / "merge.lock"
        self._driver = folder / "local.lock"
        self._lease = Lease(folder / "coordinator", LEASE_SECONDS)

    def merge(self, timeout: float = 10.0) -> AbstractContextManager[bool | None]:
        """Hold this around a merge: it saves lost races. The body runs in any case."""
        return file_lock(self._merge, timeout)

    def driver(self) -> AbstractContextManager[bool | None]:
        """Hold this while running the slots of a local run: one process does at a time."""
        return file_lock(self._driver, 1.0)

    def driven(self) -> bool | None:
        """Look whether a process runs the slots of this local run; None if unknown."""
        return is_held(self._driver)

    def coordinator(self) -> AbstractContextManager[bool]:
        """Try to be the coordinator, without waiting: whether this process is it.

        Ask again through this same object: that is how a dead coordinator is noticed.
        """
        return self._lease.taken()


def time_of_disk(folder: Path) -> float:
    """Unix time in seconds by the clock that gives files their times: one for all hosts.

    Raises:
        StorageError: the filesystem refuses.
    """
    with explained("touch", folder):
        os.utime(folder)  # a node's own clock was hours ahead, and ended the run by stop.minutes
        return folder.stat().st_mtime

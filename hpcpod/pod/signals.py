"""Being told to stop: a handler sets a flag and does nothing else."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from types import FrameType

PR_SET_PDEATHSIG = 1


class StopFlag:
    """True once one of the signals has arrived. Poll it; never act in a handler."""

    def __init__(self, signals: Iterable[signal.Signals] = ()) -> None:
        self._set = False
        for number in signals:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._set = True

    def set(self) -> None:
        """As if a signal had arrived."""
        self._set = True

    def __bool__(self) -> bool:
        return self._set


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent ends (Linux), and check that it lives.

    Args:
        parent: the parent's process id, as the parent itself told it: between fork and here
            the parent may have ended, and then nobody would ever send the signal.
        number: the signal to receive.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(75)


def end_group_with(pipe: int, patience: float = 0.0) -> None:
    """Have this process group killed once a pipe's other end is gone. Call before any thread.

    The kernel's parent-death signal reaches one process; the workers of a simulator would stay
    behind. The one that waits is a process, not a thread: a simulator may hold the
    interpreter's lock for ever.

    Args:
        pipe: file descriptor of this end, for reading or for writing.
        patience: seconds that the group has to end by itself then.
    """
    if os.fork() > 0:
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    hangup = select.poll()
    hangup.register(pipe, 0)  # asks for nothing; that the other end is gone is always told
    hangup.poll()
    time.sleep(patience)
    os.killpg(0, signal.SIGKILL)

"""Processes: their exit codes, the signals that stop them, and those that end with another."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterable
from types import FrameType

PR_SET_PDEATHSIG = 1  # of linux/prctl.h: ctypes has no header

REQUEUE = 75
"""EX_TEMPFAIL: the exit code of what was stopped, and goes on if it is started again."""

PYTHON = (sys.executable, *(("-P",) if sys.version_info >= (3, 11) else ()))
"""This Python, which looks for modules in no working directory: a group may share that, and a user
who puts a ``json.py`` there would have its code run. Python 3.10 has no such option."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that set, when a process starts, how many threads its libraries may have."""


def killed(code: int) -> bool:
    """True if an exit code says SIGKILL: most often, memory ran out."""
    return _signal(code) == signal.SIGKILL


def ending(code: int) -> str:
    """The end of a process in words that go behind its name.

    Args:
        code: its exit code as ``subprocess`` gives it; of a shell, srun and mpirun, who tell of a
            signal by 128 more, it is understood too.
    """
    number = _signal(code)
    if number == signal.SIGKILL:
        return "was killed (SIGKILL: most often it was out of memory)"
    if number in set(signal.Signals):
        return f"was ended by {signal.Signals(number).name}"
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _signal(code: int) -> int:
    return -code if code < 0 else code - 128  # 137 of a shell is -9 of subprocess


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent ends (Linux), and check that it lives.

    Args:
        parent: the parent's process id, as the parent itself gave it: between fork and here
            the parent may have ended, and then the kernel would never send the signal.
        number: the signal to receive.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(REQUEUE)  # it ended before prctl: the kernel will not tell


def end_group_with(pipe: int, patience: float = 0.0, *, or_with_this: bool = False) -> None:
    """Have this process group killed once a pipe's other end is gone. Call before any thread.

    The kernel's parent-death signal reaches one process; the workers of a simulator would stay
    behind. The one that waits is a process, not a thread: a simulator may hold the
    interpreter's lock for ever.

    Args:
        pipe: file descriptor of this end, for reading or for writing.
        patience: seconds that the group has to end by itself then.
        or_with_this: also when this process, which leads the group, has ended: srun and mpirun
            wait for all that has their output open.
    """
    this = os.pidfd_open(os.getpid()) if or_with_this else None  # Linux 5.3
    if os.fork() > 0:
        if this is not None:
            os.close(this)
        return
    # Slurm signals all of a step: this one must outlive what it has to end.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    ending = select.poll()
    ending.register(pipe, 0)  # asks for nothing: POLLHUP and POLLERR are always reported
    if this is not None:
        ending.register(this, select.POLLIN)
    if any(descriptor == pipe for descriptor, _ in ending.poll()) and patience:
        ending.unregister(pipe)
        ending.poll(1000 * patience)  # ms
    os.killpg(0, signal.SIGKILL)  # its own group, and so itself


class StopFlag:
    """True once one of the signals has arrived. Poll it; never act in a handler."""

    def __init__(self, signals: Iterable[signal.Signals] = ()) -> None:
        self._set = False
        for number in signals:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._set = True  # no more: handlers nest, and one that logs may wait for its own lock

    def set(self) -> None:
        """As if a signal had arrived."""
        self._set = True

    def __bool__(self) -> bool:
        return self._set

"""Processes that end when another one does, however it ends."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1


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
    this = os.pidfd_open(os.getpid()) if or_with_this else None
    if os.fork() > 0:
        if this is not None:
            os.close(this)
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    ending = select.poll()
    ending.register(pipe, 0)  # asks for nothing; that the other end is gone is always told
    if this is not None:
        ending.register(this, select.POLLIN)
    if any(descriptor == pipe for descriptor, _ in ending.poll()) and patience:
        ending.unregister(pipe)
        ending.poll(1000 * patience)
    os.killpg(0, signal.SIGKILL)

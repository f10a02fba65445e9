"""Faults of processes: killed, or stopped for so long that others take them for dead."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.chaos.faults import Fault
from tests.chaos.world import Role, World


@dataclass(frozen=True)
class Hit:
    """What a fault has done."""

    what: str
    heal: Callable[[], None] | None = None
    """Ends it, after the fault's seconds; None where it is over at once."""


def kill(role: Role) -> Callable[[World, Fault], Hit | None]:
    """SIGKILL of one process of a role."""

    def inject(world: World, fault: Fault) -> Hit | None:
        pid = fault.choice(world.processes(role))
        return Hit(f"process {pid}") if pid is not None and send(pid, signal.SIGKILL) else None

    return inject


def stop(role: Role) -> Callable[[World, Fault], Hit | None]:
    """SIGSTOP of one process of a role, and SIGCONT."""

    def inject(world: World, fault: Fault) -> Hit | None:
        pid = fault.choice(world.processes(role))
        if pid is None or not send(pid, signal.SIGSTOP):
            return None
        held = world.holding()

        def go_on() -> None:
            send(pid, signal.SIGCONT)
            held()

        return Hit(f"process {pid}", go_on)

    return inject


def hold_merges(world: World, fault: Fault) -> Hit | None:
    """Hold the merge lock: for the others, somebody who merges was stopped."""
    try:
        descriptor = os.open(world.path / "lease" / "merge.lock", os.O_RDWR)
    except OSError:  # nobody has merged yet, or the disk is read-only
        return None
    with suppress(BlockingIOError):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return Hit("the merge lock", lambda: os.close(descriptor))
            time.sleep(0.005)
    os.close(descriptor)
    return None


def send(pid: int, number: int) -> bool:
    """Send a signal; whether there was anybody to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True

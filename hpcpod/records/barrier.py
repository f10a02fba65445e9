"""The barrier of scheme ``generational``, as the board holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Barrier:
    """The place where pods that have trained a round wait for the others; see
    ``tournament.barrier``."""

    round: int = 0
    """Pods with so many rounds of experience wait; 0: the scheme has no barrier."""
    since: float | None = None
    """Unix time at which the barrier before it opened, in seconds; None for the first one."""
    met: float | None = None
    """Unix time since which the quorum has been there, in seconds; None while it is not."""

"""A watch on a piece of work: it is followed and stopped from outside. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hpcpod.errors import HpcpodError
from hpcpod.pod.ipc.messages import FailureKind, Progress


class Stopped(Exception):
    """An order was stopped on request; what it can resume from is in the run folder."""


class ProgramFailed(HpcpodError):
    """An attempt of a user's training program that failed, in one sentence."""

    def __init__(self, said: str, kind: FailureKind) -> None:
        self.kind = kind
        super().__init__(said)


def never() -> bool:
    """Never stop."""
    return False


@dataclass
class Watch:
    """A watch on a round: it is followed and stopped from outside."""

    should_stop: Callable[[], bool] = never
    on_progress: Callable[[Progress], None] = lambda progress: None
    may_save: Callable[[], bool] = lambda: True
    """True if what an unfinished round can go on from may be left in the run folder."""
    discarded: Callable[[], bool] = never
    """True if the work counts for nothing any more: nothing of it is worth saving."""

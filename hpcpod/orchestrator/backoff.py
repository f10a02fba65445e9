"""Backoff after failed submissions: longer and longer pauses, then none before a person resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcpod.records.records import Intent
from hpcpod.storage.requests import Refusals as Refusals

# s; as HyperQueue's autoalloc, and so are both limits below
DELAYS = (0.0, 60.0, 900.0, 1800.0, 3600.0)
"""Seconds before the next submission, after so many failures in a row."""
QUIET = 5  # to 300 s from 60: squeue's manual warns of loops, PSI/J asks each 30 s
"""The longest pause between two ticks while nothing happens, in pauses of ``tick_interval``."""
FAILED_SUBMISSIONS = 10  # one a tick: by its arrays, one busy moment paused a run
"""Submissions in a row that the scheduler refused, after which the run pauses."""
FAILED_STARTS = 3
"""Submissions in a row whose slots all ended without any progress, after which the run pauses."""


@dataclass(frozen=True)
class Backoff:
    """Failures of late, and the pauses that follow."""

    refusals: Refusals = field(default_factory=Refusals)
    failed_starts: int = 0
    last_start: float = 0.0
    """Unix time of the last submission, in seconds."""
    delays: Sequence[float] = DELAYS

    def pause(self) -> str:
        """The reason to submit nothing before a person has looked; empty if there is none."""
        if self.refusals.count >= FAILED_SUBMISSIONS:
            return (
                f"the scheduler refused {self.refusals.count} submissions in a row:"
                f" {self.refusals.why}"
            )
        if self.failed_starts >= FAILED_STARTS:
            return (
                f"{self.failed_starts} submissions in a row ended without any progress;"
                " see `hpcpod logs`"
            )
        return ""

    def wait(self, now: float) -> float:
        """Seconds until the next submission may be made; 0 if it may be now."""
        failures = (
            (self.refusals.count, self.refusals.last),
            (self.failed_starts, self.last_start),
        )
        return max(self._left(count, now - last) for count, last in failures)

    def _left(self, failures: int, since: float) -> float:
        delay = self.delays[min(failures, len(self.delays) - 1)] if self.delays else 0.0
        # By the clock of another node, or one that was set back, it is still to come: for as long
        # as that is so every tick would wait anew, hours perhaps.
        return max(0.0, delay - since) if since >= 0 else 0.0


def failed_starts(
    intents: Sequence[Intent], reports: int, fruitful: frozenset[int], present: frozenset[int]
) -> int:
    """Submissions in a row, the last one backwards, that are gone and brought nothing.

    Args:
        intents: submissions of slots that were made, since a person last resumed the run.
        reports: on the board now.
        fruitful: numbers of those of which a slot has saved something.
        present: numbers of those that still have a slot in the queue.
    """
    gone: set[float] = set()  # what was split over several arrays at one time counts once
    for intent in reversed(intents):
        # by its slots' checkpoints, too: a report may come only later
        if intent.number in fruitful or intent.reports != reports:
            break
        if intent.number not in present:
            gone.add(intent.time)
    return len(gone)

"""What a run's jobs in the queue wait for, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hpcpod.launchers.base import THROTTLED, JobView
from hpcpod.launchers.foreseeing import Impossible, sentences
from hpcpod.launchers.reasons import explain
from hpcpod.run.words import duration, many

_OTHERS = (THROTTLED, "Dependency", "BeginTime")
"""Reasons that end by themselves, and come before Slurm looks for nodes."""


def looks_for_nodes(job: JobView) -> bool:
    """Whether a job waits for nodes, as far as its reason tells."""
    return job.state == "pending" and job.reason not in _OTHERS


def waiting_words(
    jobs: Sequence[JobView], now: float, vain: Sequence[Impossible] = ()
) -> Iterator[str]:
    """What these slots wait for, a sentence for each reason, with what can be done about it.

    Args:
        jobs: that wait.
        now: Unix time in seconds.
        vain: what jobs ask for that no node could give.
    """
    never = "; ".join(sentences([each for each in vain if each.kind == "slots"]))
    for word, count in Counter(job.reason for job in jobs).most_common():
        some = [job for job in jobs if job.reason == word]
        verb = "waits" if count == 1 else "wait"
        back = sum(job.requeued for job in some)
        again = f" ({back} to come back after a requeue)" if back else ""
        if never and looks_for_nodes(some[0]):
            yield f"{many(count, 'slot')} {verb}{again}, and can't ever start: {never}"
        else:
            why = f"{reason_words(word)}{_start(some, now)}"
            yield f"{many(count, 'slot')} {verb}{again}: {why}"


def reason_words(word: str) -> str:
    """A reason of the scheduler's, in words."""
    reason = explain(word)
    never = ["it won't start by itself"] if reason.hopeless else []
    said = "; ".join([reason.meaning, *never, *([reason.advice] if reason.advice else [])])
    return said if word in ("", reason.meaning) else f"{word}: {said}"


def _start(jobs: Sequence[JobView], now: float) -> str:
    """When the first of them is expected to start."""
    starts = [job.starts for job in jobs if job.starts is not None]
    return f"; expected to start in {duration(min(starts) - now)}" if starts else ""

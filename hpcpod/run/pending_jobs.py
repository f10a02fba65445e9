"""Sentences on a run's jobs in the queue: their reasons to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hpcpod.launchers.base import THROTTLED, JobView
from hpcpod.launchers.slurm.feasibility import Impossible, sentences
from hpcpod.launchers.slurm.reasons import explain
from hpcpod.orchestrator.backoff import QUIET
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.run.text import duration, many

_OTHERS = (
    THROTTLED,
    "Dependency",  # a coordinator's successor
    "BeginTime",  # a requeued job, for cred_expire + 1 s: 121 by default
)
"""Reasons that end by themselves, and come before Slurm looks for nodes."""


def looks_for_nodes(job: JobView) -> bool:
    """True if a job waits for nodes, as far as its reason tells."""
    return job.state == "pending" and job.reason not in _OTHERS


def waiting_words(
    jobs: Sequence[JobView], now: float, impossible: Sequence[Impossible] = ()
) -> Iterator[str]:
    """Reasons for which slots wait, a sentence each, with what can be done about it.

    Args:
        jobs: that wait.
        now: Unix time in seconds.
        impossible: demands of jobs that no node could meet.
    """
    never = "; ".join(sentences([each for each in impossible if each.kind == "slots"]))
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


def cancelled_words(seen: Snapshot) -> str:
    """The fate of slots that a person has cancelled lately, in a sentence; empty without any."""
    wanted, run = seen.wanted, seen.word
    if seen.state not in ("running", "waiting") or wanted is None:
        return ""
    missing = min(wanted, seen.useful) - seen.running - len(seen.waiting)
    gone = [slot for slot, replaced in seen.cancelled if not replaced]
    if gone and missing > 0:  # the next tick asks for as many again: scancel is no `scale`
        plural = len(gone) != 1
        then = f" and {'come' if plural else 'comes'} back: {wanted} wanted, and"
        then += f" {_next_submission(seen)}"
    else:
        gone = [slot for slot, replaced in seen.cancelled if replaced]
        if not gone:
            return ""
        plural = len(gone) != 1
        place = "others were asked for in their" if plural else "another was asked for in its"
        then = f", and {place} place: {wanted} wanted"
    names = ", ".join([slot.slot for slot in gone[:3]] + ["..."] * (len(gone) > 3))
    ago = duration(seen.now - max(slot.at for slot in gone))
    left = wanted - len(gone)
    fewer = f"`hpcpod scale {run} {left}`" if left > 0 else f"`hpcpod pause {run}`, or `scale`"
    head = f"{many(len(gone), 'slot')} {'were' if plural else 'was'} cancelled {ago} ago ({names})"
    return f"{head}{then}; to have fewer, {fewer}"


def _next_submission(seen: Snapshot) -> str:
    """The next submission of slots: by whom, and when."""
    if any(job.state == "running" for job in seen.coordinators):
        longest = QUIET * seen.config.cluster.tick_interval
        return f"its coordinator asks for them within {duration(longest)}"
    first = "its coordinator, once that runs, or " if seen.coordinators else ""
    return f"{first}the next `hpcpod tick {seen.word}` asks for them"


def reason_words(word: str) -> str:
    """A reason of the scheduler's, in words."""
    reason = explain(word)
    never = ["it won't start by itself"] if reason.hopeless else []
    said = "; ".join([reason.meaning, *never, *([reason.advice] if reason.advice else [])])
    return said if word in ("", reason.meaning) else f"{word}: {said}"


def _start(jobs: Sequence[JobView], now: float) -> str:
    """The clause on when the first of them is expected to start."""
    starts = [job.starts for job in jobs if job.starts is not None]
    return f"; expected to start in {duration(min(starts) - now)}" if starts else ""

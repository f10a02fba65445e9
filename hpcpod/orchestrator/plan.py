"""The plan: a pure function from what was observed to the actions of a tick."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hpcpod.launchers.base import RELEASE_SECONDS, THROTTLED, JobView
from hpcpod.launchers.identity import alive
from hpcpod.launchers.slurm.reasons import explain
from hpcpod.orchestrator.slot_count import Chooser, Fit, fit
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Intent
from hpcpod.storage.slots import element

COORDINATORS = 30
"""Coordinators submitted within ``COORDINATOR_SECONDS``, after which no more are for a while."""
COORDINATOR_SECONDS = 600.0


@dataclass(frozen=True)
class Merge:
    """Fold reports into the board; the slots of these orders are gone."""

    lost: tuple[str, ...] = ()
    size: int | None = None
    """Pods that may be in training at once from now on; None: as before."""


@dataclass(frozen=True)
class Record:
    """Say that a job in the queue is the one of an intent that has none on record."""

    number: int
    job: str


@dataclass(frozen=True)
class Submit:
    """Submit an intent; a new one is published first."""

    intent: Intent


@dataclass(frozen=True)
class Pause:
    """Drain the run: nothing goes on until a person has done something."""

    why: str


@dataclass(frozen=True)
class Cancel:
    """End these jobs."""

    jobs: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Throttle:
    """Change how many elements of an array may run at once; 0: all."""

    array: str
    limit: int


@dataclass(frozen=True)
class Release:
    """Have these start as soon as there is room: they were requeued, and Slurm would let them wait
    for two minutes first."""

    jobs: tuple[str, ...]


@dataclass(frozen=True)
class Retire:
    """Ask these slots to leave and not to come back."""

    slots: tuple[str, ...]
    at_once: bool
    """With a checkpoint, or else after the round in hand."""
    why: str


LAUNCH_FAILED = re.compile(r".*[ _]requeued[ _]held|JobHoldMaxRequeue", re.IGNORECASE)
"""Reasons of Slurm for a job that a broken node could not start: it holds the job until a person
acts. ``launch failed requeued held`` is the usual one."""

NewIntent = Callable[[Literal["slots", "coordinator"], int], Intent]

Action = Merge | Record | Submit | Pause | Cancel | Throttle | Release | Retire


def plan(observed: Snapshot, token: Callable[[], str]) -> list[Action]:
    """The actions of a tick. Pure but for ``token``, which names a new intent."""
    stuck = [job for job in observed.cluster.jobs if _launch_failed(job)]
    jobs = tuple(job for job in observed.cluster.jobs if not _launch_failed(job))
    observed = replace(observed, view=replace(observed.cluster, jobs=jobs))
    return [*_cancel(stuck, "a node could not start them, and Slurm holds them"),
            *_planned(observed, token)]  # fmt: skip


def _launch_failed(job: JobView) -> bool:
    return job.state == "pending" and LAUNCH_FAILED.fullmatch(job.reason) is not None


def _planned(observed: Snapshot, token: Callable[[], str]) -> list[Action]:
    """The plan for all jobs that may still come to something."""
    jobs = observed.cluster.jobs
    slots = [job for job in jobs if job.kind == "slots"]
    waiting = [job for job in jobs if job.state == "pending"]
    if observed.board.phase == "finished":
        successors = [job for job in waiting if job.kind == "coordinator"]
        if observed.config.on_finish is not None:  # a slot that runs it ends by itself, as all do
            slots = [job for job in slots if job.state == "pending"]
        return [Merge(), *_cancel([*slots, *successors], "the run has ended")]
    gone = _given_up(observed)
    if observed.draining:
        return [Merge(gone), *_cancel(waiting, "the run is draining")]
    doubles = _doubles(observed, slots)
    doubled = {job.slot for job in doubles}
    slots = [job for job in slots if job.slot not in doubled]
    size, wanted = _wanted(observed)
    fitting = fit(
        slots, wanted, observed.cluster, observed.leaving, Chooser(observed.board, observed.claims)
    )
    new = _new_intents(observed, token)
    return [
        *_cancel(doubles, "its intent was submitted twice"),
        *_resize(observed, fitting, wanted),
        *_release(slots, observed.now + RELEASE_SECONDS),
        *_coordinator(observed, new),
        *_submissions(observed, slots, fitting.missing, new),
        Merge(gone, size),
        *_pause(observed, slots, fitting.missing),
    ]


def _given_up(observed: Snapshot) -> tuple[str, ...]:
    """Orders whose slots are gone, or come back at an unknown time. While a throttle of ours, or
    the scheduler, holds a slot back, those that run would leave its order alone. Of one that waits
    in the queue those that run play the episodes, of which it has kept nothing."""
    jobs = observed.cluster.jobs
    reasons = {r for r in {job.reason for job in jobs} if r == THROTTLED or explain(r).hopeless}
    held = {job.slot for job in jobs if job.reason in reasons}
    queued = {job.slot for job in jobs if job.requeued} if observed.running else set[str]()
    scores = {order.id for order in observed.board.rescores.values()}
    return tuple(
        order
        for order, owner in observed.claims.items()
        if element(owner.slot) in (held | queued if order in scores else held)
        or not alive(owner, observed.cluster, observed.silence)
    )


def _wanted(observed: Snapshot) -> tuple[int | None, int]:
    """A new size of the population, if it changes, and the slots that it can use."""
    board, population = observed.board, observed.population
    all_pods = observed.config.population.pods.max
    changes = population != (all_pods if board.size is None else board.size)
    if changes:
        board = replace(board, size=population if population < all_pods else None)
    useful = replace(observed, board=board).useful
    return (population if changes else None), min(observed.target, useful)


def _resize(observed: Snapshot, fitting: Fit, wanted: int) -> Iterator[Action]:
    """Actions that fit the present slots to the wanted number, if they are too many, or a throttle
    of ours holds them back."""
    for array, limit in (fitting.throttles or {}).items():
        yield Throttle(array, limit)
    why = f"no more than {wanted} are wanted now"
    yield from _cancel(fitting.superfluous, why)
    for chosen, at_once in ((fitting.retire, True), (fitting.retire_later, False)):
        names = tuple(job.slot for job in chosen if job.slot not in observed.leaving)
        if names:
            yield Retire(names, at_once, why)


def _release(slots: list[JobView], soon: float) -> list[Action]:
    late = [job for job in slots if job.starts is None or job.starts > soon]
    held = tuple(job.job for job in late if job.requeued and job.reason == "BeginTime")
    return [Release(held)] if held else []


def _submissions(
    observed: Snapshot, slots: list[JobView], missing: int, new: NewIntent
) -> Iterator[Action]:
    """Submissions of slots, in as many arrays as it takes; and records of those that have none."""
    in_queue = {job.token: job.submission for job in observed.cluster.jobs}
    # What a person has rendered, or a launcher that died has announced, is not announced again.
    announced = []
    for intent in _unrecorded(observed):
        if intent.token in in_queue:
            yield Record(intent.number, in_queue[intent.token])
            # Another coordinator submits it right now: the rest of it may not be in the queue yet.
            seen = sum(job.token == intent.token for job in observed.cluster.jobs)
            missing -= max(0, intent.count - seen)
        elif intent.kind == "slots":
            announced.append(intent)
    missing = _backed_off(observed, slots, missing)
    for intent in announced:
        # One that is larger than an array may be was announced when that limit was unknown.
        if intent.count <= min(missing, observed.largest or missing):
            yield Submit(intent)
            missing -= intent.count
    while missing > 0:
        count = min(missing, observed.largest or missing)
        yield Submit(new("slots", count))
        missing -= count


def _backed_off(observed: Snapshot, slots: list[JobView], missing: int) -> int:
    """The number of missing slots that may be asked for now."""
    backoff, may_wait = observed.backoff, observed.config.cluster.waiting
    if missing <= 0 or backoff.pause() or backoff.wait(observed.now) > 0:
        return 0
    begun = {job.submission for job in slots if job.state == "running" or job.requeued}
    queued = [job for job in slots if job.submission not in begun]
    targets = {intent.token: intent.target for intent in observed.intents}
    # A backlog of one: while what was asked for last waits for room, more would wait with it.
    if any(targets.get(job.token, 0) >= observed.target for job in queued):
        return 0
    if observed.fits is not None:
        # A slot that leaves has its GPU until it is gone: the next one got none, and saw all.
        may_wait = 0
    elif may_wait is None:
        return missing
    waiting = sum(job.state == "pending" for job in slots)
    floor = observed.unasked - len(slots)
    return min(missing, max(floor, may_wait + (observed.cluster.room or 0) - waiting, 0))


def _pause(observed: Snapshot, slots: list[JobView], missing: int) -> list[Action]:
    """Slots at work may still bring something; without one, nothing more happens by itself."""
    why = observed.backoff.pause()
    if not why or slots or missing <= 0:
        return []
    return [Pause(observed.refused or why)]


def _coordinator(observed: Snapshot, new: NewIntent) -> Iterator[Action]:
    """One coordinator that waits for the end of the one that runs, whatever ends that."""
    if not observed.coordinated:
        return
    known = set(observed.submitted.values())
    jobs = [job for job in observed.cluster.jobs if job.kind == "coordinator"]
    waiting = [job for job in jobs if job.state == "pending"]
    waiting.sort(key=lambda job: (job.submission not in known, job.job))
    yield from _cancel(waiting[1:], "another coordinator waits already")
    if waiting:
        return
    in_queue = {job.token for job in observed.cluster.jobs}
    ours = [intent for intent in observed.intents if intent.kind == "coordinator"]
    for intent in _unrecorded(observed):
        if intent.kind == "coordinator" and intent.token not in in_queue:
            yield Submit(intent)
            return
    recent = [i for i in ours if 0 <= observed.now - i.time < COORDINATOR_SECONDS]
    if len(recent) < COORDINATORS:
        yield Submit(new("coordinator", 1))


def _new_intents(observed: Snapshot, token: Callable[[], str]) -> NewIntent:
    # A torn intent's number was given again, and was taken for ever: no later one was submitted.
    readable = max((i.number + 1 for i in observed.intents), default=0)
    numbers = itertools.count(max(observed.numbered, readable))
    reports, now, target = observed.board.reports, observed.now, observed.target

    def new(kind: Literal["slots", "coordinator"], count: int) -> Intent:
        return Intent(next(numbers), token(), kind, count, reports, now, target)

    return new


def _unrecorded(observed: Snapshot) -> list[Intent]:
    return [intent for intent in observed.intents if intent.number not in observed.submitted]


def _cancel(jobs: Sequence[JobView], why: str) -> list[Action]:
    return [Cancel(tuple(job.job for job in jobs), why)] if jobs else []


def _doubles(observed: Snapshot, slots: list[JobView]) -> list[JobView]:
    """Slots of a submission that another one of the same intent has beaten."""
    winners = {i.token: observed.submitted.get(i.number) for i in observed.intents}
    return [
        job for job in slots
        if job.submission and winners.get(job.token) not in (None, job.submission)
    ]  # fmt: skip

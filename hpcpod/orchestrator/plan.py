"""What to do now: a pure function of what was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpcpod.launchers.admission import alive
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.records import Board, Intent, Owner
from hpcpod.tournament.leaderboard import orders


@dataclass(frozen=True)
class Observed:
    """All that a plan is made from."""

    board: Board
    cluster: ClusterView
    places: int
    """Slots wanted at once."""
    claims: Mapping[str, Owner] = field(default_factory=dict)
    """Owners of open orders, read *before* the scheduler was asked."""
    silence: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which an owner that no scheduler knows has shown nothing, by its slot."""
    intents: tuple[Intent, ...] = ()
    submitted: Mapping[int, str] = field(default_factory=dict)
    """The job that counts for an intent, by the intent's number."""
    resumed: int = 0
    """Intents that there were when a person last resumed the run."""
    draining: bool = False
    refused: str = ""
    """Why a slot could do nothing for the run, if one said so since the last report."""
    max_restarts: int = 3


@dataclass(frozen=True)
class Merge:
    """Fold reports into the board; the slots of these orders are gone."""

    lost: tuple[str, ...] = ()
    failure: str = ""
    """Why the run is given up, in one sentence; empty if it goes on."""


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


Action = Merge | Record | Submit | Pause | Cancel


def plan(observed: Observed, token: Callable[[], str]) -> list[Action]:
    """What to do now. Pure but for ``token``, which names a new intent."""
    slots = [job for job in observed.cluster.jobs if job.kind == "slots"]
    if observed.board.phase == "finished":
        return [Merge(), *_cancel(slots, "the run has ended")]
    gone = tuple(
        order
        for order, owner in observed.claims.items()
        if not alive(owner, observed.cluster, observed.silence)
    )
    if observed.draining:
        waiting = [job for job in slots if job.state == "pending"]
        return [Merge(gone), *_cancel(waiting, "the run is draining")]
    doubles = _doubles(observed, slots)
    actions: list[Action] = [*_cancel(doubles, "its intent was submitted twice")]
    unrecorded = [i for i in observed.intents if i.number not in observed.submitted]
    in_queue = {job.token: job.submission for job in observed.cluster.jobs}
    vain = in_vain(observed)
    hopeless = vain > observed.max_restarts
    missing = min(observed.places, len(orders(observed.board))) - len(slots) + len(doubles)
    for intent in unrecorded:
        if intent.token in in_queue:
            actions.append(Record(intent.number, in_queue[intent.token]))
        elif intent.kind == "slots" and intent.count <= missing and not hopeless:
            actions.append(Submit(intent))
            missing -= intent.count
    if missing > 0 and hopeless:
        if slots:  # they may still bring a report; more of what dies will not
            return [*actions, Merge(gone)]
        if observed.refused:
            return [*actions, Merge(gone), Pause(observed.refused)]
        row = "1 submission" if vain == 1 else f"{vain} submissions in a row"
        why = f"{row} brought no report; see `hpcpod logs`"
        return [*actions, Merge(gone, why)]
    if missing > 0:
        number = max((i.number + 1 for i in observed.intents), default=0)
        actions.append(Submit(Intent(number, token(), "slots", missing, observed.board.reports)))
    return [*actions, Merge(gone)]


def _cancel(jobs: list[JobView], why: str) -> list[Action]:
    return [Cancel(tuple(job.job for job in jobs), why)] if jobs else []


def _doubles(observed: Observed, slots: list[JobView]) -> list[JobView]:
    """Slots of a submission that another one of the same intent has beaten."""
    winners = {i.token: observed.submitted.get(i.number) for i in observed.intents}
    return [
        job for job in slots
        if job.submission and winners.get(job.token) not in (None, job.submission)
    ]  # fmt: skip


def in_vain(observed: Observed) -> int:
    """Submissions of slots since the last report that counted, and since a person resumed the
    run: what a drain or a Ctrl-C has ended did not fail."""
    made = [i for i in observed.intents if i.kind == "slots" and i.number in observed.submitted]
    recent = [i for i in made if i.number >= observed.resumed]
    return sum(1 for i in recent if i.reports == observed.board.reports)

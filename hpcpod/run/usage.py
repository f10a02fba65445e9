"""Usage of a run's resources: its slots' hours by purpose, and their activities in time.

Slots account for their own time (``storage.restarts``). Reports tell what counted for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hpcpod.records.records import Board
from hpcpod.storage.restarts import RestartRecord, Span
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import element

if TYPE_CHECKING:
    from hpcpod.run.history import Result

Purpose = Literal["training", "scoring", "starting", "waiting", "lost", "unknown"]

LEAST = 1e-3
"""Seconds below which a remainder is one of rounding."""


@dataclass(frozen=True)
class Used:
    """Resources that all slots of a run had, over all restarts."""

    slot_seconds: float
    gpu_hours: float
    core_hours: float
    requeues: int
    """Jobs of slots that the scheduler has started again."""


def used(records: Mapping[str, RestartRecord]) -> Used:
    """Add up the usage of a run's slots; several in one job were requeued with it, once."""
    restarts: dict[str, int] = {}
    for slot, record in records.items():
        job = element(slot)
        restarts[job] = max(restarts.get(job, 0), record.restarts)
    return Used(
        slot_seconds=sum(record.seconds for record in records.values()),
        gpu_hours=sum(each.gpus * each.seconds for each in records.values()) / 3600,
        core_hours=sum(each.cpus * each.seconds for each in records.values()) / 3600,
        requeues=sum(restarts.values()),
    )


@dataclass(frozen=True)
class SlotUse:
    """One slot: its resources, and its time by purpose. The seven times are seconds; the last six
    add up to the first."""

    slot: str
    """Its name: of an array job the element's, with ``+`` and a number if several share one."""
    began: float
    """Unix time of its first start, in seconds, by its clock."""
    restarts: int
    """Times that the scheduler has started it again."""
    gpus: float
    """GPUs that it has; a part of one, if slots share it."""
    cpus: int
    """Cores that it has."""
    seconds: float
    """Run time of its processes, over all starts; of a slot at work up to a minute old."""
    training: float
    """A round was being trained, and maybe another one scored beside it."""
    scoring: float
    """A panel or fresh seeds were being played, and no round was trained."""
    starting: float
    """An order was in hand, and the process for it was still importing."""
    waiting: float
    """There was nothing to do, or reports were merged."""
    lost: float
    """Orders that failed, or counted for nothing since they were given out again or their pod was
    dead. Steps that a killed process had trained since its checkpoint are under ``training``."""
    unknown: float
    """Run time before a version of hpcpod that accounts for it."""


@dataclass(frozen=True)
class Usage:
    """The time of all slots that went to one purpose."""

    purpose: Purpose
    """``training``, ``scoring``, ``starting``, ``waiting``, ``lost`` or ``unknown``."""
    slot_seconds: float
    """Seconds, added up over all slots."""
    core_hours: float
    """Hours times the cores of each slot, whether busy or not."""
    gpu_hours: float
    """Hours times the GPUs of each slot."""


@dataclass(frozen=True)
class Activity:
    """The activity of a slot from one moment to another."""

    slot: str
    kind: Literal["starting", "training", "scoring", "waiting", "failed", "away"]
    """``failed``: an order that failed, whatever of it was at work. ``away``: between two starts,
    after a preemption, a requeue or its time limit."""
    began: float
    """Unix time in seconds, by the slot's clock."""
    ended: float
    pod: str = ""
    """Empty while the slot starts, waits or is away."""
    order: str = ""


PURPOSES: tuple[Purpose, ...] = (
    "training", "scoring", "starting", "waiting", "lost", "unknown",
)  # fmt: skip


def slots(folder: RunFolder, board: Board, rows: Iterable[Result]) -> tuple[SlotUse, ...]:
    """Each slot that the run has had, by name.

    Args:
        folder: of the run; it is only read.
        board: its latest.
        rows: its reports, by ``history.results``.
    """
    lost: dict[str, list[Result]] = {}
    pending = _open(board)
    for row in rows:
        if row.failure_kind or not (row.counted or row.order in pending):
            lost.setdefault(row.slot, []).append(row)
    records = folder.restarts.all()
    return tuple(_slot(name, record, lost.get(name, ())) for name, record in records.items())


def usage(folder: RunFolder, board: Board, rows: Iterable[Result]) -> tuple[Usage, ...]:
    """The time of all slots by purpose; together the time that the slots were at work.

    ``unknown`` is there if a slot has such time, the others always are.
    """
    found = slots(folder, board, rows)
    return tuple(
        Usage(
            purpose,
            math.fsum(getattr(slot, purpose) for slot in found),
            math.fsum(slot.cpus * getattr(slot, purpose) for slot in found) / 3600,
            math.fsum(slot.gpus * getattr(slot, purpose) for slot in found) / 3600,
        )
        for purpose in PURPOSES
        if purpose != "unknown" or any(slot.unknown for slot in found)
    )


def _open(board: Board) -> set[str]:
    births = {pod.birth.id for pod in board.pods.values() if pod.birth is not None}
    return births | {order.id for order in board.rescores.values()}


def _slot(name: str, record: RestartRecord, lost: Collection[Result]) -> SlotUse:
    spent = dict(record.spent)
    unknown = max(0.0, record.seconds - math.fsum(spent.values()))
    unknown = unknown if unknown > LEAST else 0.0
    trained, scored = spent.get("training", 0.0), spent.get("scoring", 0.0)
    # What a slot has lost is some of what it did: it can't be more.
    in_training = min(trained, math.fsum(r.cost for r in lost if r.purpose == "round"))
    in_scoring = min(scored, math.fsum(r.cost for r in lost if r.purpose != "round"))
    rest = trained + scored + spent.get("starting", 0.0) + unknown
    return SlotUse(
        slot=name, began=record.began, restarts=record.restarts, gpus=record.gpus,
        cpus=record.cpus, seconds=record.seconds,
        training=trained - in_training, scoring=scored - in_scoring,
        starting=spent.get("starting", 0.0), waiting=max(0.0, record.seconds - rest),
        lost=in_training + in_scoring, unknown=unknown,
    )  # fmt: skip


def activities(folder: RunFolder, board: Board, rows: Iterable[Result]) -> tuple[Activity, ...]:
    """The activities of all slots, by slot and time, as far as reports and slots tell them.

    Where rounds are scored beside training, activities of a slot overlap. Of slots whose times no
    version before has recorded, only the reported orders are there.
    """
    ours: dict[str, list[Result]] = {}
    for row in rows:
        ours.setdefault(row.slot, []).append(row)
    records = folder.restarts.all()
    found: list[Activity] = []
    for name in sorted({*records, *ours}):
        spans = records[name].spans if name in records else ()
        found += sorted(_of_slot(name, spans, ours.get(name, [])), key=lambda each: each.began)
    return tuple(found)


def _of_slot(name: str, spans: tuple[Span, ...], rows: list[Result]) -> Iterator[Activity]:
    busy = [each for row in rows for each in _of_report(name, row, spans)]
    yield from busy
    for span, after in zip(spans, (*spans, None)[1:], strict=True):
        end = span.began + span.seconds
        following = math.inf if after is None else after.began
        inside = [each for each in busy if span.began <= each.ended < following]
        if span.order and span.doing != "starting" and span.order not in {a.order for a in inside}:
            pod, until = span.order.rsplit("-", 2)[0], min(span.until or end, end)
            began = min(span.since, until)
            inside.append(Activity(name, span.doing, began, until, pod, span.order))
            yield inside[-1]
        yield from _idle(name, span, inside)
        if end < following < math.inf:
            yield Activity(name, "away", end, following)


def _of_report(name: str, row: Result, spans: tuple[Span, ...]) -> Iterator[Activity]:
    """The parts of an order that a slot has reported."""
    start = max((span.began for span in spans if span.began <= row.ended), default=-math.inf)
    begun = max(row.ended - row.wall_seconds, start)
    if row.failure_kind:
        yield Activity(name, "failed", begun, row.ended, row.pod, row.order)
        return
    scored = begun if row.purpose != "round" else max(begun, row.ended - row.evaluate_seconds)
    if scored > begun:
        yield Activity(name, "training", begun, scored, row.pod, row.order)
    if row.ended > scored:
        yield Activity(name, "scoring", scored, row.ended, row.pod, row.order)


def _idle(name: str, span: Span, busy: Iterable[Activity]) -> Iterator[Activity]:
    """The times in a span in which no order was at work."""
    at, starting = span.began, span.starting
    for each in sorted(busy, key=lambda each: each.began):
        if each.began - at > LEAST:
            ready = max(at, each.began - starting)
            if ready - at > LEAST:
                yield Activity(name, "waiting", at, ready)
            if each.began - ready > LEAST:
                yield Activity(name, "starting", ready, each.began)
                starting = 0.0
        at = max(at, each.ended)
    if span.began + span.seconds - at > LEAST:
        yield Activity(name, "waiting", at, span.began + span.seconds)

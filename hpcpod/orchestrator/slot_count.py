"""The slots that should come, and those that should go: pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hpcpod.launchers.base import THROTTLED, ClusterView, JobView
from hpcpod.records.records import Board, Owner
from hpcpod.storage.slots import element
from hpcpod.tournament.priorities import by_priority, protected


@dataclass(frozen=True)
class Fit:
    """The difference between the present slots and the wanted number."""

    missing: int = 0
    """Slots to ask for."""
    throttles: Mapping[str, int] | None = None
    """New limits of arrays: how many of each may run at once, 0 for all."""
    superfluous: tuple[JobView, ...] = ()
    """Waiting slots that are to leave, or that no throttle holds back: an array's can't be 0."""
    retire: tuple[JobView, ...] = ()
    """Running slots that should go at once: worst prospects first."""
    retire_later: tuple[JobView, ...] = ()
    """Running slots that should go after the round: they train what no shortage stops."""


def fit(
    slots: Collection[JobView],
    wanted: int,
    view: ClusterView,
    leaving: Collection[str],
    choose: Chooser,
) -> Fit:
    """Compare the slots in the queue with ``wanted``.

    Args:
        slots: what is in the queue, duplicates left out.
        wanted: how many there should be.
        view: for the throttles of arrays.
        leaving: slots that have been asked to go.
        choose: who goes first.
    """
    running = [job for job in slots if job.state == "running" and job.slot not in leaving]
    waiting = [job for job in slots if job.state == "pending" and job.slot not in leaving]
    kept = Counter(job.submission for job in running)
    going = choose.first_to_go(running, max(0, len(running) - wanted))
    kept.subtract(job.submission for job, _ in going)
    spare = wanted - sum(kept.values())
    throttles: dict[str, int] = {}
    # Those that were requeued before they had left would start to do so.
    superfluous = [job for job in slots if job.state == "pending" and job.slot in leaving]
    arrays: dict[str, list[JobView]] = {}
    for job in waiting:
        arrays.setdefault(job.submission, []).append(job)
    for array, elements in sorted(arrays.items(), key=_age):
        allowed = min(len(elements), spare)
        spare -= allowed
        limit = 0 if allowed == len(elements) else kept[array] + allowed
        if allowed < len(elements) and limit == 0:
            superfluous += elements
        elif view.throttles.get(array, 0) != limit or (not limit and _hidden(elements, view)):
            throttles[array] = limit
    return Fit(
        missing=max(0, spare),
        throttles=throttles,
        superfluous=tuple(superfluous),
        retire=tuple(job for job, at_once in going if at_once),
        retire_later=tuple(job for job, at_once in going if not at_once),
    )


def _hidden(elements: Collection[JobView], view: ClusterView) -> bool:
    """True if an unknown throttle holds some of an array's elements back."""
    # Twenty arrays are asked for theirs at a tick: another one stayed held back for ever.
    held = {job.submission for job in elements if job.reason == THROTTLED}
    return not held <= view.throttles.keys()


def _age(array: tuple[str, list[JobView]]) -> tuple[int, str]:
    """Orders arrays by age: the priority of the oldest has grown most."""
    number = array[0]
    return len(number), number  # as numbers, without reading one: 9999 is older than 10000


class Chooser:
    """The order in which slots leave when they are too many: the idle, then by their pods."""

    def __init__(self, board: Board, claims: Mapping[str, Owner]) -> None:
        ranks = {pod: rank for rank, pod in enumerate(by_priority(board))}
        safe = protected(board)
        self._rank: dict[str, int] = {}
        self._safe: set[str] = set()
        births = {pod.birth.id: pod.id for pod in board.living if pod.birth is not None}
        rescores = {order.id for order in board.rescores.values()}
        for order, owner in claims.items():
            slot = element(owner.slot)
            pod = births.get(order)
            # A score on fresh seeds is what the run waits for.
            rank = -1 if order in rescores else ranks.get(pod or "", len(ranks))
            self._rank[slot] = min(self._rank.get(slot, rank), rank)
            if order in rescores or pod in safe:
                self._safe.add(slot)

    def first_to_go(self, running: Collection[JobView], count: int) -> list[tuple[JobView, bool]]:
        """``count`` of the running slots, and whether each may go before its round has ended."""
        if count <= 0:
            return []
        idle = math.inf
        ranked = sorted(running, key=lambda job: (-self._rank.get(job.slot, idle), job.slot))
        return [(job, job.slot not in self._safe) for job in ranked[:count]]

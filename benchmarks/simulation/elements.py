"""Arrays of slots in the scheduler: pending, running, preempted, requeued, cancelled."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from hpcpod.errors import LaunchError
from hpcpod.launchers.base import ClusterView, JobView
from simulation.grid import Counts, Place

if TYPE_CHECKING:
    from simulation.scheduler import Scheduler

State = Literal["pending", "running", "leaving", "gone"]


@dataclass(eq=False)
class Array:
    """A submission."""

    number: int
    token: str
    limit: float
    """Seconds that an element may run."""
    throttle: int | None
    running: int = 0
    parked: list[Element] = field(default_factory=list)
    """Elements that only the throttle holds back."""


@dataclass(eq=False)
class Element:
    """One slot, over all its lives."""

    array: Array
    index: int
    state: State = "pending"
    ready: float = 0.0
    """Not before this second it may start."""
    place: Place | None = None
    """Its GPU, while nobody else has been given it."""
    free_since: float = 0.0
    """When its GPU was last given back by somebody, before it had it."""
    started: float = 0.0
    leaves: float = 0.0
    """While it is leaving: when it is gone."""
    life: int = 0
    """Starts so far."""
    fate: Literal["requeue", "gone"] = "gone"
    """What comes after leaving."""
    view: JobView | None = None

    def __post_init__(self) -> None:
        self.name = f"{self.array.number}_{self.index}"


class Elements:
    """The slots of one run, and what its owner may ask of the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.loop, self.site = scheduler.loop, scheduler.site
        self.live: dict[str, Element] = {}
        """By name, in the order of submission."""
        self.calls: Counter[str] = Counter()
        """Questions and orders to the scheduler so far, by kind."""
        self.longest = 0.0
        """Seconds of the longest time limit of a slot."""
        self._arrays: dict[int, Array] = {}
        self._ready: list[tuple[int, int, Element]] = []
        self._random = random.Random(0)

    # What the owner may ask. Each raises LaunchError when there is no answer.

    def squeue(self) -> ClusterView:
        """All that is pending or running, and by a scontrol each the throttles that hold back."""
        self._ask("squeue")
        parked = [array for array in self._arrays.values() if array.parked]
        self.calls["scontrol"] += len(parked)
        throttles = {str(array.number): array.throttle or 0 for array in parked}
        return ClusterView(tuple(map(self._view, self.live.values())), throttles)

    def sinfo(self) -> int:
        """GPUs that nobody has."""
        self._ask("sinfo")
        return int(self.scheduler.grid.idle.sum())

    def sbatch(self, token: str, count: int, limit: float, throttle: int | None = None) -> str:
        """Submit an array of elements that may run for ``limit`` seconds; its id.

        Of the submissions that get no answer every other one was made all the same.
        """
        answered = not self._fails()
        self.calls["sbatch"] += 1
        if not answered and self._random.random() < 0.5:
            raise LaunchError("sbatch refused: Unable to contact slurm controller")
        if count > self.site.max_array_size:
            raise LaunchError("sbatch refused: Invalid job array specification")
        others = len(self.scheduler.queue) + len(self.scheduler.running)
        if others + len(self.live) + count > self.site.max_jobs:
            raise LaunchError("sbatch refused: Slurm temporarily unable to accept job")
        array = Array(len(self._arrays) + 1, token, limit, throttle)
        self._arrays[array.number] = array
        self.longest = max(self.longest, limit)
        for index in range(count):
            element = Element(array, index)
            self.live[element.name] = element
            self._queue(element)
        self.scheduler.changed()
        if not answered:
            raise LaunchError("sbatch refused: Socket timed out on send/recv operation")
        return str(array.number)

    def throttle(self, array: str, most: int | None) -> None:
        """Let at most so many elements of an array run, or all; none that runs is stopped."""
        self._ask("scontrol")
        found = self._arrays[int(array)]
        found.throttle = most
        for element in found.parked:
            self._queue(element)
        found.parked = []
        self.scheduler.changed()

    def release(self, names: Collection[str]) -> None:
        """Set the StartTime of pending elements to now: one scontrol for each 500 of them."""
        self.calls["scontrol"] += (len(names) - 1) // 500
        self._ask("scontrol")
        for name in names:
            element = self.live.get(name)
            if element is not None and element.state == "pending" and element.ready > 0:
                element.ready = 0.0
                element.view = None
                self._queue(element)
        self.scheduler.changed()

    def scancel(self, jobs: Collection[str]) -> None:
        """End these elements and arrays for good."""
        self._ask("scancel")
        for name in self._named(jobs):
            element = self.live[name]
            if element.state == "pending":
                self._gone(element)
            else:
                self._leave(element, "gone")
        self.scheduler.changed()

    def signal(self, jobs: Collection[str]) -> None:
        """Tell running elements to end: they save their work and do not come back."""
        self._ask("scancel")
        for name in self._named(jobs):
            if self.live[name].state == "running":
                self._leave(self.live[name], "gone")
        self.scheduler.changed()

    # What the scheduler does.

    def start(self, usable: Counts, most: int) -> int:
        """Start at most so many elements on usable GPUs; how many were started."""
        if not self._ready or most <= 0:
            return 0
        places = self.scheduler.grid.vacancies(min(most, len(self._ready)), usable)
        for count, place in enumerate(places):
            element = self._pop()
            if element is None:
                return count
            self._start(element, place)
        return len(places)

    def preempt(self, element: Element) -> float:
        """Another's job gets its GPU: seconds until the element is gone from it."""
        now = self.loop.now
        tenant = self.scheduler.tenant
        if element.state == "running":
            self.calls["by slots"] += tenant is not None and tenant.polite  # squeue, once
            self._leave(element, "requeue" if self.site.mode == "requeue" else "gone")
        if element.place is not None:
            self.scheduler.grid.vacate(element.place, now)
            element.place = None
        return element.leaves - now

    def exit(self, element: Element) -> None:
        """Its processes end by themselves, with exit code 0."""
        element.fate = "gone"
        self._end(element, element.life, killed=False)

    def crash(self, element: Element) -> None:
        """Its node has failed."""
        element.fate = "requeue" if element.state == "running" else element.fate
        self._end(element, element.life, killed=element.state == "running")

    def _ask(self, command: str) -> None:
        self.calls[command] += 1
        if self._fails():
            raise LaunchError(f"{command} failed: Socket timed out on send/recv operation")

    def _fails(self) -> bool:
        return self._random.random() < self.site.errors

    def _named(self, jobs: Collection[str]) -> list[str]:
        """Live elements among these names, and those of these arrays."""
        arrays = {job for job in jobs if "_" not in job}
        names = [job for job in jobs if job in self.live]
        if arrays:
            names += [n for n, each in self.live.items() if str(each.array.number) in arrays]
        return names

    def _view(self, element: Element) -> JobView:
        if element.view is None:
            pending = element.state == "pending"
            why = "BeginTime" if element.ready > self.loop.now else "Resources"
            why = "JobArrayTaskLimit" if element in element.array.parked else why
            element.view = JobView(
                element.name, element.name, "slots", "pending" if pending else "running",
                element.array.token, why if pending else "", str(element.array.number),
                restarts=max(0, element.life - (not pending)),
            )  # fmt: skip
        return element.view

    def _queue(self, element: Element) -> None:
        """It may start as soon as there is room, or once its time has come."""
        now = self.loop.now
        element.view = None
        if element.ready > now:
            self.loop.at(element.ready, partial(self._due, element, element.life))
        else:
            heapq.heappush(self._ready, (element.array.number, element.index, element))

    def _due(self, element: Element, life: int) -> None:
        if element.state == "pending" and element.life == life and element.ready > 0:
            element.ready = 0.0
            self._queue(element)
            self.scheduler.changed()

    def _pop(self) -> Element | None:
        """The next element that its array's throttle lets start."""
        while self._ready:
            element = heapq.heappop(self._ready)[2]
            if element.state != "pending":
                continue
            array = element.array
            if array.throttle is None or array.running < array.throttle:
                return element
            array.parked.append(element)
            element.view = None
        return None

    def _start(self, element: Element, place: Place) -> None:
        grid, now = self.scheduler.grid, self.loop.now
        element.state, element.place, element.started = "running", place, now
        element.life += 1
        element.view = None
        element.free_since = grid.idle_since[place[0]][place[1]]
        element.array.running += 1
        grid.seat(place, element)
        tenant = self.scheduler.tenant
        assert tenant is not None
        tenant.started(element)
        warning = self.site.warning if tenant.polite else 0.0
        until = now + element.array.limit - warning
        self.loop.at(until, partial(self._expire, element, element.life))

    def _expire(self, element: Element, life: int) -> None:
        """Its time limit comes: whoever listens is told before, and asks to come back."""
        if element.life != life or element.state != "running":
            return
        tenant = self.scheduler.tenant
        if tenant is not None and tenant.polite:
            self.calls["by slots"] += 2  # squeue and scontrol requeue of the batch script
            self._leave(element, "requeue")
        else:
            element.fate = "gone"
            self._end(element, life, killed=True)

    def _leave(self, element: Element, fate: Literal["requeue", "gone"]) -> None:
        """It is signalled, and will be gone as soon as it can, or as it must."""
        tenant, now = self.scheduler.tenant, self.loop.now
        assert tenant is not None
        if element.state == "leaving":
            element.fate = "gone" if fate == "gone" else element.fate
            return
        allowed = self.site.grace or self.site.kill_wait
        seconds = tenant.leaving(element, allowed)
        element.fate, element.state, element.view = fate, "leaving", None
        element.leaves = now + min(seconds, allowed)
        killed = seconds > allowed or not tenant.polite
        self.loop.at(element.leaves, partial(self._end, element, element.life, killed))

    def _end(self, element: Element, life: int, killed: bool) -> None:
        """It is gone from its GPU."""
        if element.life != life or element.state not in ("running", "leaving"):
            return
        now, tenant = self.loop.now, self.scheduler.tenant
        if element.place is not None:
            self.scheduler.grid.vacate(element.place, now)
            element.place = None
        element.array.running -= 1
        for parked in element.array.parked:
            self._queue(parked)
        element.array.parked = []
        element.state, element.view = "pending", None
        assert tenant is not None
        tenant.ended(element, killed)
        if element.fate == "gone":
            self._gone(element)
        else:
            element.ready = now + self.site.requeue_delay
            self._queue(element)
        self.scheduler.changed()

    def _gone(self, element: Element) -> None:
        element.state = "gone"
        del self.live[element.name]

"""A scheduler like Slurm's: first come first served with EASY backfill, and preemption.

What of Slurm's behaviour counts here, from its manual and measured on a real one:

- A job that starts or ends lets the queue's head start at once. What may overtake a head that
  waits, a backfill decides every ``bf_interval`` seconds, for the first ``bf_max_job_test`` jobs.
- Slots are in a partition of the lowest tier: any other job has their GPUs for the asking, once
  they have left. To start one they wait behind all others: at once only while nobody else waits.
- A slot's GPU may be wanted by the queue's head before the slot's own time limit ends. Then
  backfill leaves that GPU idle, preemptible or not.
- What is requeued may start again after ``requeue_delay`` (cred_expire and a second), unless its
  owner has set its StartTime to now.

Not modelled: shares and priorities between users, topologies, jobs that share a GPU, several
backfill reservations, maintenance windows.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol, get_args

import numpy as np

from simulation.elements import Element, Elements
from simulation.grid import Counts, Grid, Place, Reservation
from simulation.loop import Loop
from simulation.trace import Job, Outage, Trace

Mode = Literal["requeue", "cancel"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Site:
    """How a cluster is set up."""

    mode: Mode = "requeue"
    """PreemptMode of the slots' partition."""
    grace: float = 0.0
    """GraceTime in seconds; with 0 a slot has ``kill_wait`` after its SIGTERM."""
    kill_wait: float = 30.0
    warning: float = 90.0
    """Seconds before its time limit at which a slot is signalled."""
    bf_interval: float = 30.0
    bf_max_job_test: int = 1000
    requeue_delay: float = 121.0
    max_array_size: int = 1001
    max_jobs: int = 50_000
    """MaxJobCount: pending and running jobs of all users."""
    errors: float = 0.01
    """Probability that a Slurm command gets no answer."""
    latency: float = 2.0
    """Seconds from a question to what is done about the answer."""


class Tenant(Protocol):
    """What runs in slots."""

    polite: bool
    """It listens to signals, and saves its work before it ends."""

    def started(self, element: Element) -> None:
        """The element has a GPU from now on."""

    def leaving(self, element: Element, allowed: float) -> float:
        """It was signalled: seconds that it takes to save its work and end, if it is allowed."""

    def ended(self, element: Element, killed: bool) -> None:
        """It is gone; ``killed`` before it could save anything."""


@dataclass(eq=False)
class Other:
    """A job of another user."""

    job: Job
    remaining: float
    """Seconds that it still runs."""
    places: list[Place] = field(default_factory=list)
    began: float = 0.0
    life: int = 0
    """Starts so far."""


class Scheduler:
    """The cluster as its controller sees it. It starts with ``load``."""

    def __init__(self, loop: Loop, trace: Trace, site: Site, tenant: Tenant | None = None) -> None:
        self.loop, self.site, self.tenant = loop, site, tenant
        self.grid: Grid[Element] = Grid(trace.nodes, trace.gpus)
        self.elements = Elements(self)
        self.watch: Callable[[], None] = lambda: None
        """Called after each change of who has which GPU."""
        self.queue: list[Other] = []
        """Other users' pending jobs, first come first."""
        self.running: dict[Other, None] = {}
        # By start, as dicts: the order of a set of objects is another one in each process.
        self._residents: list[dict[Other, None]] = [{} for _ in range(trace.nodes)]
        self._trace = trace
        self._next = 0
        self._cycle = -math.inf
        """When the next backfill is, or the last one was."""

    def load(self) -> None:
        """Let the trace happen."""
        if self._trace.jobs:
            self.loop.at(self._trace.jobs[0].submit, self._submit)
        for outage in self._trace.outages:
            self.loop.at(outage.start, partial(self._lose, outage))
            self.loop.at(outage.end, partial(self._repair, outage))

    def changed(self) -> None:
        """Something came, ended or was released: start what may start, and backfill soon."""
        while self.queue:
            nodes = self._fit(self.queue[0], self.grid.for_others)
            if nodes is None:
                break
            self._start(self.queue.pop(0), nodes)
        if not self.queue:
            self.elements.start(self.grid.idle, self.site.bf_max_job_test)
        if self.queue and self._cycle <= self.loop.now:
            interval = self.site.bf_interval
            self._cycle = (math.floor(self.loop.now / interval) + 1) * interval
            self.loop.at(self._cycle, self._backfill)
        self.watch()

    def _submit(self) -> None:
        now = self.loop.now
        jobs = self._trace.jobs
        while self._next < len(jobs) and jobs[self._next].submit <= now:
            job = jobs[self._next]
            self.queue.append(Other(job, job.runtime))
            self._next += 1
        if self._next < len(jobs):
            self.loop.at(jobs[self._next].submit, self._submit)
        self.changed()

    def _fit(self, other: Other, usable: Counts) -> list[int] | None:
        return self.grid.find(other.job.nodes, other.job.gpus, usable)

    def _start(self, other: Other, nodes: Sequence[int]) -> None:
        now = self.loop.now
        other.places = [
            place for node in nodes for place in self.grid.choose(node, other.job.gpus)
        ]  # fmt: skip
        slots = [self.grid.holders[node][gpu] for node, gpu in other.places]
        waits = [self.elements.preempt(slot) for slot in slots if slot is not None]
        delay = max(waits, default=0.0)
        other.began = now + delay
        other.life += 1
        self.grid.take(other.places, other.began + other.job.limit)
        for node in nodes:
            self._residents[node][other] = None
        self.running[other] = None
        self.loop.at(other.began + other.remaining, partial(self._end, other, other.life))

    def _end(self, other: Other, life: int) -> None:
        if other.life == life and other in self.running:
            self._release(other)
            self.changed()

    def _release(self, other: Other) -> None:
        del self.running[other]
        for node, _ in other.places:
            self._residents[node].pop(other, None)
        self.grid.give_back(other.places, self.loop.now)

    def _lose(self, outage: Outage) -> None:
        """A node is drained, or fails: then its jobs are requeued, and go on where they were."""
        self.grid.close(outage.node)
        if not outage.drain:
            for other in sorted(self._residents[outage.node], key=lambda each: each.job.submit):
                self._release(other)
                other.remaining -= max(0.0, self.loop.now - other.began)
                bisect.insort(self.queue, other, key=lambda each: each.job.submit)
            for slot in [slot for slot in self.grid.holders[outage.node] if slot is not None]:
                self.elements.crash(slot)
        self.changed()

    def _repair(self, outage: Outage) -> None:
        self.grid.reopen(outage.node, self.loop.now)
        self.changed()

    def _backfill(self) -> None:
        """Start what delays the head of the queue not at all, going by time limits."""
        now, tested = self.loop.now, 1
        head = self.queue[0] if self.queue else None
        reserved = self.grid.reservation(head.job.nodes, head.job.gpus) if head else None
        failed: set[tuple[int, int, bool]] = set()
        started: set[Other] = set()
        for other in self.queue[1 : self.site.bf_max_job_test]:
            tested += 1
            short = reserved is None or now + other.job.limit <= reserved.at
            if (other.job.nodes, other.job.gpus, short) in failed:
                continue
            usable = self.grid.for_others
            if reserved is not None and not short:
                usable = np.minimum(usable, reserved.spare)
            nodes = self._fit(other, usable)
            if nodes is None:
                failed |= {(other.job.nodes, other.job.gpus, way) for way in {short, False}}
                continue
            if reserved is not None and not short:
                reserved.spare[nodes] -= other.job.gpus
            self._start(other, nodes)
            started.add(other)
        self.queue = [other for other in self.queue if other not in started]
        most = self.site.bf_max_job_test - tested
        if self.elements.start(self._usable_by_slots(reserved), most) or started:
            self.changed()

    def _usable_by_slots(self, reserved: Reservation | None) -> Counts:
        """Per node, idle GPUs on which a slot may start and keep its whole time limit."""
        idle = self.grid.idle
        limit = self.elements.longest
        if reserved is None or self.loop.now + limit <= reserved.at:
            return idle
        usable: Counts = np.minimum(idle, reserved.spare - self.grid.slots)
        return usable

"""One run on one trace, by a coordinator or as a static array, and what became of the GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from hpcpod.errors import LaunchError
from simulation.bounds import Left
from simulation.coordinator import Coordinator, Wanted
from simulation.loop import Loop
from simulation.population import Ledger, Population, Work
from simulation.scheduler import Scheduler, Site
from simulation.trace import HOUR, Trace

RETRY = 60.0
"""Seconds after which the user of a static array types sbatch again."""

Way = Literal["hpcpod", "array", "plain array"]
"""``hpcpod``: its plan, at every tick. ``array``: the same slots, submitted once, without a
coordinator. ``plain array``: slots that do not listen to signals either; their checkpoints inside
a round are all that is left of them, and a time limit ends them for good."""

WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True)
class Outcome:
    """What a run had of a cluster."""

    bound: Left
    """What the cluster's other users left."""
    ledger: Ledger
    allocated: float
    """GPU-seconds."""
    reports: int
    delays: tuple[float, ...]
    """Seconds from a GPU's last user to the next step of training on it."""
    calls: Mapping[str, int] = field(default_factory=dict)
    hours: float = 1.0
    ticks: int = 0
    paused: str = ""

    @property
    def used(self) -> float:
        """Training that was kept, as a share of the physical bound."""
        return self.ledger.trained / self.bound.seconds if self.bound.seconds else 0.0

    def delay(self, percent: float) -> float:
        """A percentile of ``delays``; nan if there are none."""
        return float(np.percentile(self.delays, percent)) if self.delays else float("nan")

    def hourly(self, kind: str) -> float:
        """Calls of a kind in an hour."""
        return self.calls.get(kind, 0) / self.hours


class Simulation:
    """A run on a trace, at its beginning. ``loop`` lets time pass."""

    def __init__(self, trace: Trace, site: Site, work: Work, wanted: Wanted, way: Way) -> None:
        self.loop = Loop(trace.begin)
        work = replace(work, pods=wanted.most, polite=way != "plain array")
        self.population = Population(self.loop, work)
        self.scheduler = Scheduler(self.loop, trace, site, self.population)
        self.population.exit = self.scheduler.elements.exit
        self.left = Left(self.scheduler, wanted.most)
        self.coordinator: Coordinator | None = None
        if way == "hpcpod":
            self.coordinator = Coordinator(self.scheduler, self.population, wanted)
            self.loop.at(0.0, self.coordinator.tick)
        else:
            self.loop.at(0.0, _Submission(self.scheduler, wanted).submit)
        self.scheduler.load()

    def outcome(self) -> Outcome:
        """What it came to until now; nothing may happen after."""
        self.population.close()
        self.left.count()
        return Outcome(
            self.left,
            self.population.ledger,
            self.population.allocated,
            self.population.reports,
            tuple(self.population.delays),
            dict(self.scheduler.elements.calls),
            self.loop.now / HOUR,
            self.coordinator.ticks if self.coordinator else 0,
            self.coordinator.paused if self.coordinator else "",
        )


def run(trace: Trace, site: Site, work: Work, wanted: Wanted, way: Way = "hpcpod") -> Outcome:
    """Submit at second 0, and see to the trace's end."""
    simulation = Simulation(trace, site, work, wanted, way)
    simulation.loop.run(trace.end)
    return simulation.outcome()


class _Submission:
    """As many arrays as hold the slots, each tried until it is taken, and nothing after."""

    def __init__(self, scheduler: Scheduler, wanted: Wanted) -> None:
        self._scheduler, self._wanted = scheduler, wanted
        self._left = wanted.most

    def submit(self) -> None:
        elements = self._scheduler.elements
        while self._left > 0:
            count = min(self._left, self._scheduler.site.max_array_size)
            try:
                elements.sbatch(f"static-{self._left}", count, self._wanted.limit)
            except LaunchError:
                self._scheduler.loop.at(self._scheduler.loop.now + RETRY, self.submit)
                return
            self._left -= count

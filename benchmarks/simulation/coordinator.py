"""The real plan in a simulated run: what it is told, and what its actions come to here.

This is the one place that knows both ``hpcpod.orchestrator`` and the simulator. What a run
folder would hold (intents, recorded jobs, refusals) is held in memory, as ``tick.py`` would
write and read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpcpod.config.schema import (
    ClusterConfig,
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RunConfig,
)
from hpcpod.errors import LaunchError
from hpcpod.orchestrator.backoff import QUIET, Backoff, Refusals, failed_starts
from hpcpod.orchestrator.plan import (
    Action,
    Cancel,
    Merge,
    Pause,
    Record,
    Release,
    Retire,
    Submit,
    Throttle,
    plan,
)
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.orchestrator.tick import SOON_SECONDS
from hpcpod.records.records import Intent
from hpcpod.storage.requests import Drain
from simulation.population import Population
from simulation.scheduler import Scheduler
from simulation.trace import HOUR


@dataclass(frozen=True)
class Wanted:
    """What a run's configuration says."""

    least: int = 32
    """``population.pods.min``."""
    most: int = 2000
    """``population.pods.max``, and so the slots wanted at once."""
    limit: float = 4 * 3600.0
    """``cluster.minutes``, in seconds."""
    interval: float = 60.0
    """Seconds between two ticks."""
    waiting: int | None = None
    """``cluster.waiting``."""
    by_day: int | None = None
    """``cluster.schedule``: slots wanted from Monday to Friday, 8:00 to 18:00; None: ``most``."""

    @property
    def config(self) -> RunConfig:
        """The configuration; no coordinator is a job here."""
        return RunConfig(
            "simulated", EnvConfig("none"),
            cluster=ClusterConfig(launcher="slurm", coordinator=False, waiting=self.waiting),
            population=PopulationConfig(pods=PodsConfig(self.least, self.most)),
        )  # fmt: skip

    def scheduled(self, second: float) -> int | None:
        """What the schedule asks for at a second."""
        day, hour = divmod(second / HOUR, 24)
        return self.by_day if day % 7 < 5 and 8 <= hour < 18 else None


class Coordinator:
    """Ticks a simulated run."""

    def __init__(self, scheduler: Scheduler, population: Population, wanted: Wanted) -> None:
        self._scheduler, self._elements = scheduler, scheduler.elements
        self._loop = scheduler.loop
        self._population, self._wanted = population, wanted
        self._intents: list[Intent] = []
        self._submitted: dict[int, str] = {}
        self._refusals = Refusals()
        self._leaving: set[str] = set()
        self._pause = wanted.interval
        self._before: object = None
        self._tokens = _tokens()
        self.ticks = 0
        self.paused = ""
        """Why the run waits for a person, if it does."""

    def tick(self) -> None:
        """Observe and plan; act when the answers have come; tick again later."""
        self.ticks += 1
        quiet = False
        try:
            observed = self.observe()
        except LaunchError:
            pass
        else:
            actions = plan(observed, partial(next, self._tokens))
            acting = partial(self._act_all, actions)
            self._loop.at(self._loop.now + self._scheduler.site.latency, acting)
            jobs = {(job.job, job.state) for job in observed.cluster.jobs}
            idle = all(isinstance(action, Merge) for action in actions)
            quiet = idle and jobs == self._before and self._next_end() >= SOON_SECONDS
            self._before = jobs
        interval = self._wanted.interval
        self._pause = min(1.5 * self._pause, QUIET * interval) if quiet else interval
        self._loop.at(self._loop.now + self._pause, self.tick)

    def _next_end(self) -> float:
        """Seconds until the first of the running slots comes to its time limit."""
        started = [seat.element.started for seat in self._population.seats.values()]
        return min(started, default=math.inf) + self._wanted.limit - self._loop.now

    def observe(self) -> Snapshot:
        """The Snapshot that ``orchestrator.snapshot.observe`` would return now.

        Raises:
            LaunchError: the scheduler did not answer.
        """
        claims = dict(self._population.claims)
        board = self._population.board
        cluster = self._elements.squeue()
        wanted, tokens = self._wanted, {job.token for job in cluster.jobs}
        self._leaving &= self._elements.live.keys()
        made = [intent for intent in self._intents if intent.number in self._submitted]
        present = frozenset(intent.number for intent in made if intent.token in tokens)
        largest = self._scheduler.site.max_array_size
        return Snapshot(
            path=Path("simulated"),
            config=wanted.config,
            board=board,
            view=replace(cluster, max_array_size=largest, room=self._room()),
            places=wanted.most,
            scheduled=wanted.scheduled(self._loop.now),
            claims=claims,
            intents=tuple(self._intents),
            submitted=dict(self._submitted),
            leaving=frozenset(self._leaving),
            backoff=Backoff(
                refusals=self._refusals,
                failed_starts=failed_starts(made, board.reports, self._fruitful(), present),
                last_start=made[-1].time if made else 0.0,
            ),
            drain=Drain() if self.paused else None,
            now=self._loop.now,
        )

    def _room(self) -> int | None:
        if self._wanted.waiting is None:
            return None
        try:
            return self._elements.sinfo()
        except LaunchError:
            return None

    def _fruitful(self) -> frozenset[int]:
        """Submissions of which a slot has trained something that was kept."""
        arrays = self._population.fruitful
        return frozenset(n for n, job in self._submitted.items() if job in arrays)

    def _act_all(self, actions: list[Action]) -> None:
        for action in actions:
            try:
                self._act(action)
            except LaunchError:
                continue  # it is seen to at a later tick

    def _act(self, action: Action) -> None:
        if isinstance(action, Merge):
            self._population.give_out(action.lost, action.size)
        elif isinstance(action, Submit):
            self._submit(action.intent)
        elif isinstance(action, Record):
            self._submitted[action.number] = action.job
            self._refusals = Refusals()
        elif isinstance(action, Cancel):
            self._elements.scancel(action.jobs)
        elif isinstance(action, Throttle):
            self._elements.throttle(action.array, action.limit or None)
        elif isinstance(action, Release):
            self._elements.release(action.jobs)
        elif isinstance(action, Retire):
            self._leaving.update(action.slots)
            if action.at_once:
                self._elements.signal(action.slots)
            else:
                self._population.retire(action.slots)
        elif isinstance(action, Pause):
            self.paused = action.why

    def _submit(self, intent: Intent) -> None:
        if all(intent.number != each.number for each in reversed(self._intents)):
            self._intents.append(intent)
        try:
            job = self._elements.sbatch(intent.token, intent.count, self._wanted.limit)
        except LaunchError as error:
            self._refusals = Refusals(self._refusals.count + 1, self._loop.now, str(error))
            raise
        self._refusals = Refusals()
        self._submitted[intent.number] = job


def _tokens() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{number:016x}"

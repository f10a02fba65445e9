"""Storms and calms: faults come, several at once; then they end, and every promise is checked."""

from __future__ import annotations

import heapq
import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod.records.records import Board
from hpcpod.storage.requests import Drain
from tests.chaos import files, invariants, people, processes, site
from tests.chaos.faults import KINDS, OVERSLEEP, Fault
from tests.chaos.processes import Hit
from tests.chaos.world import SCENES, Scene, World

Injection = Callable[[World, Fault], Hit | None]

INJECTIONS: Mapping[str, Injection] = {
    "kill slot": processes.kill("slot"),
    "kill rank": processes.kill("pod"),
    "kill coordinator": processes.kill("orchestrator"),
    "stop slot": processes.stop("slot"),
    "stop rank": processes.stop("pod"),
    "stop coordinator": processes.stop("orchestrator"),
    "stop merges": processes.hold_merges,
    "kill slurmd": site.kill_slurmd,
    "kill slurmctld": site.kill_slurmctld,
    "node down": site.node("down"),
    "node drained": site.node("drain"),
    "preemption": site.preempt,
    "preemption of all": site.preempt_all,
    "requeue": site.requeue,
    "scancel slot": site.cancel_slot,
    "scancel coordinator": site.cancel_coordinator,
    "scancel all": site.cancel_all,
    "suspend slot": site.suspend,
    "disk full": files.fill,
    "disk read-only": files.read_only,
    "lost replies": files.lose_replies,
    "disk hangs": files.hang,
    "wrong times": files.wrong_times,
    "wrong clock": files.wrong_clock,
    "torn report": files.torn_report,
    "torn old report": files.torn_old_report,
    "torn claim": files.torn_claim,
    "torn resume": files.torn("pods/*/resume/*.json"),
    "torn blob": files.torn_blob,
    "blob gone": files.blob_gone,
    "torn generation": files.torn_generation,
    "torn hint": files.torn("board/LATEST"),
    "torn status": files.torn("slots/*.json"),
    "torn lease": files.torn("lease/coordinator*"),
    "torn intent": files.torn("intents/*.json", "intents/*.job"),
    "second coordinator": people.second_coordinator,
    "ticks": people.ticks,
    "looks": people.looks,
    "drain": people.pause("stop", "--drain"),
    "pause": people.pause("pause"),
    "scale": people.scale,
    OVERSLEEP: people.oversleep,
}
assert INJECTIONS.keys() == {*KINDS, OVERSLEEP}

STORM_SECONDS = 15.0
"""Faults that last for longer go on through calms."""

PATIENCE_SECONDS = 20.0
"""How long a run without progress is left to itself before a person helps."""


@dataclass
class Summary:
    """What happened, in numbers."""

    seed: int
    by_kind: Counter[str] = field(default_factory=Counter)
    """Faults that hit something."""
    missed: int = 0
    """Faults that found nothing to hit."""
    storms: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    reports: int = 0
    generations: int = 0
    helped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    @property
    def injected(self) -> int:
        """Faults that hit something."""
        return self.by_kind.total()

    def text(self) -> str:
        """For a person, and for a page of results."""
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(self.by_kind.items()))
        runs = ", ".join(f"{name} {n}" for name, n in self.runs.items())
        helped = ", ".join(f"{verb} {n}" for verb, n in self.helped.items()) or "nothing"
        lines = [
            f"seed {self.seed}: {self.injected} faults in {self.storms} storms"
            f" ({self.missed} found nothing to hit), {self.seconds / 60:.1f} minutes",
            f"faults: {kinds}",
            f"runs that came to their end: {runs}",
            f"reports counted: {self.reports}; generations: {self.generations}",
            f"typed by a person so that it went on: {helped}",
            f"violations: {len(self.violations)}",
            *(f"  {violation}" for violation in self.violations),
        ]
        return "\n".join(lines)


class Campaign:
    """One run after another, each disturbed until it ends, until enough has gone wrong."""

    def __init__(
        self, world: World, storms: Iterator[list[Fault]], log: Path, summary: Summary
    ) -> None:
        self._world, self._storms, self._log = world, storms, log
        self.summary = summary
        self._heals: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def run(self, faults: int, scenes: tuple[Scene, ...] = SCENES) -> Summary:
        """Until so many faults have hit, and the run that met the last of them has ended."""
        began = time.monotonic()
        try:
            both = (*scenes, *(scene.other for scene in scenes))
            for number, scene in enumerate(itertools.cycle(both)):
                goes_on = self._disturb(scene, number, faults)
                if not goes_on or self.summary.injected >= faults:
                    break
        finally:
            self.summary.seconds = time.monotonic() - began
        return self.summary

    def _disturb(self, scene: Scene, number: int, faults: int) -> bool:
        """One run, from its launch to its end; whether there are storms left for another."""
        world, summary = self._world, self.summary
        world.launch(scene, f"{scene.name}-{number}", summary.seed + number)
        self._say(f"run {number}: {scene.name}, {scene.scheme}")
        world.wait("a report", 120.0, lambda: world.board().reports > 0)
        storm: list[Fault] | None = []
        while summary.injected < faults and world.board().phase != "finished":
            storm = next(self._storms, None)
            if storm is None:  # of a replayed log
                break
            self._storm(storm)
            self._calm()
        self._end(scene)
        return storm is not None

    def _storm(self, faults: list[Fault]) -> None:
        """Every fault at its moment, and its end at its own."""
        began = time.monotonic()
        self.summary.storms += 1
        for fault in faults:
            self._sleep_until(began + fault.at)
            self._inject(fault)

    def _inject(self, fault: Fault) -> None:
        try:
            hit = INJECTIONS[fault.kind](self._world, fault)
        except OSError as error:  # the disk is full, or read-only: this fault finds no ground
            self._record(fault, None, str(error))
            return
        self._record(fault, hit)
        if hit is not None and hit.heal is not None:
            moment = time.monotonic() + fault.seconds
            heapq.heappush(self._heals, (moment, next(self._count), hit.heal))

    def _record(self, fault: Fault, hit: Hit | None, why: str = "nothing to hit") -> None:
        what = None if hit is None else hit.what
        if hit is None:
            self.summary.missed += 1
        else:
            self.summary.by_kind[fault.kind] += 1
        line = {**fault.record(), "hit": what, "why": "" if hit else why, "time": time.time()}
        with self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _sleep_until(self, moment: float) -> None:
        """Sleep; what is due to end meanwhile ends."""
        while self._heals and self._heals[0][0] <= moment:
            due, _, heal = heapq.heappop(self._heals)
            time.sleep(max(0.0, due - time.monotonic()))
            heal()
        time.sleep(max(0.0, moment - time.monotonic()))

    def _end_faults(self, until: float) -> None:
        """Wait for the end of every fault that is due until then."""
        dues = [due for due, _, _ in self._heals if due <= until]
        self._sleep_until(max(dues, default=0.0))

    def _calm(self) -> None:
        """All faults end; the run goes on; then everything is checked."""
        world, began = self._world, time.monotonic()
        self._end_faults(began + STORM_SECONDS)
        world.end_by_hand()
        world.wait("slurmctld", 60.0, world.answers)
        world.repair()
        before = world.board().reports
        self._go_on(lambda board: board.reports > before, invariants.LIVELY_SECONDS)
        violations = [*invariants.of_the_run(world), *invariants.of_processes(world)]
        self._complain(violations)
        board = world.board()
        best = f"{board.entries[0].mean:.0f}" if board.entries else "none"
        self._say(
            f"  storm {self.summary.storms}: {self.summary.injected} faults so far,"
            f" calm after {time.monotonic() - began:.0f} s;"
            f" {board.phase}, {board.reports} reports, best {best}"
        )

    def _go_on(self, true: Callable[[Board], bool], seconds: float) -> None:
        """Wait until something is true of the board, or the run has ended; help it where it needs
        that."""
        world, end = self._world, time.monotonic() + seconds
        reports = world.board().reports

        def reached() -> bool:
            board = world.board()
            return board.phase == "finished" or true(board)

        while not world.wait("progress", PATIENCE_SECONDS, reached):
            if time.monotonic() > end:
                self._complain([f"no progress within {seconds:.0f} s; queue: {world.queue()}"])
                return
            before, reports = reports, world.board().reports
            if reports != before:
                continue
            world.repair()
            # Without slots the run waits, a minute or more: what it asked for last came to nothing.
            at_work = any("_" in job for job in world.jobs())
            paused = world.folder.requests.read(Drain) is not None
            verb = "tick" if at_work and not paused else "resume"
            self.summary.helped[verb] += 1
            self._say(f"  no report for {PATIENCE_SECONDS:.0f} s: {verb}; queue: {world.queue()}")
            world.hpcpod(verb, str(world.path), codes=(0, 1, 2))

    def _end(self, scene: Scene) -> None:
        """No more faults: the run reaches its end."""
        world = self._world
        self._end_faults(math.inf)
        world.end_by_hand()
        self._go_on(lambda board: False, 600.0)
        world.observer.close()
        board = world.board()
        found = [*invariants.of_the_run(world), *invariants.of_processes(world)]
        self._complain([*found, *invariants.of_the_end(world, board)])
        self.summary.runs[scene.name] += 1
        self.summary.reports += board.reports
        self.summary.generations += len(world.observer.past.generations)
        self._say(f"  ended: {board.stop_reason}, {board.reports} reports")

    def _complain(self, violations: list[str]) -> None:
        world = self._world
        for violation in violations:
            line = f"{world.path.name}, storm {self.summary.storms}: {violation}"
            if not any(known.endswith(violation) for known in self.summary.violations):
                self.summary.violations.append(line)
                self._say(f"VIOLATION {line}")

    def _say(self, line: str) -> None:
        print(line, flush=True)

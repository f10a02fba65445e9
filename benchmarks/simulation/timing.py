"""The time of one plan, and its growth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from hpcpod.orchestrator.plan import plan
from hpcpod.orchestrator.snapshot import Snapshot
from simulation.coordinator import Wanted
from simulation.population import Work
from simulation.run import Simulation
from simulation.scheduler import Site
from simulation.trace import HOUR, Trace

GPUS = 8
REPEATS = 5


def situations(slots: int) -> Iterator[tuple[str, Snapshot]]:
    """A run of so many slots and pods after three hours: as it is, and when much is to be done."""
    trace = Trace(-(-slots // GPUS), GPUS, 0.0, 3 * HOUR)
    site = Site(errors=0.0, max_jobs=10 * slots)
    simulation = Simulation(trace, site, Work(), Wanted(least=1, most=slots), "hpcpod")
    simulation.loop.run(trace.end)
    assert simulation.coordinator is not None
    found = simulation.coordinator.observe()
    jobs = found.cluster.jobs
    yield "all at work", found
    yield (
        "a third gone",
        replace(found, view=replace(found.cluster, jobs=jobs[: 2 * len(jobs) // 3])),
    )
    yield "half to go", replace(found, scale=slots // 2)


def seconds(observed: Snapshot) -> float:
    """CPU time of one plan, the least of several: what a busy machine adds is not the plan's."""
    taken = []
    for _ in range(REPEATS):
        fresh = replace(observed, view=replace(observed.cluster))  # nothing cached
        begun = time.process_time()
        plan(fresh, lambda: "0" * 16)
        taken.append(time.process_time() - begun)
    return min(taken)

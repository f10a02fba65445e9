"""A run on a synthetic cluster with other users: what it gets of the GPUs that they leave idle.

    python benchmarks/simulate.py                        # a week, 1,000 nodes of 8 GPUs
    python benchmarks/simulate.py --days 1 --seeds 1 2 3 --mode cancel
    python benchmarks/simulate.py --plan 10000           # how long one plan takes

The plan is hpcpod's own. The users, the scheduler and the slots are simulated; what they are like,
and what is left out, stand in ``simulation/trace.py``, ``scheduler.py`` and ``population.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from simulation import timing
from simulation.coordinator import Wanted
from simulation.population import Work
from simulation.run import WAYS, run
from simulation.scheduler import MODES, Site
from simulation.tables import Row, render
from simulation.trace import DAY, Trace, Workload, draw


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.plan:
        for slots in options.plan:
            for name, observed in timing.situations(slots):
                print(f"{slots:,} slots, {name}: {timing.seconds(observed):.3f} s", flush=True)
        return 0
    rows = []
    for seed in options.seeds:
        begun = time.monotonic()
        trace = draw(workload(options), seed)
        rows += measured(trace, seed, options)
        print(f"seed {seed}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(render(rows))
    return 0


def measured(trace: Trace, seed: int, options: argparse.Namespace) -> list[Row]:
    """Every way on one trace, in every mode."""
    wanted = Wanted(
        least=min(32, options.slots),
        most=options.slots,
        limit=60.0 * options.minutes,
        waiting=options.waiting,
        by_day=options.by_day,
    )
    work = Work(
        startup=options.startup, round=60.0 * options.round, checkpoint=options.checkpoint
    )  # fmt: skip
    return [
        Row(seed, mode, way, run(trace, Site(mode=mode, grace=options.grace), work, wanted, way))
        for mode in options.mode
        for way in options.ways
    ]


def workload(options: argparse.Namespace) -> Workload:
    return Workload(options.nodes, options.gpus, options.days, options.load)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--nodes", type=_count, default=1000)
    add("--gpus", type=_count, default=8, help="of a node")
    add("--days", type=_positive, default=7.0)
    add("--load", type=_positive, default=0.9, help="what other users ask for, of all GPUs")
    add("--seeds", "--seed", type=int, nargs="+", default=[1])
    add("--mode", choices=MODES, nargs="+", default=list(MODES), help="what preemption does")
    add("--ways", choices=WAYS, nargs="+", default=list(WAYS))
    add("--slots", type=_count, default=1000, help="pods.max, and elements of the static array")
    add("--minutes", type=_positive, default=240.0, help="a slot's time limit")
    add("--round", type=_positive, default=30.0, help="minutes of a pod's round")
    add("--startup", type=_positive, default=12.0, help="seconds from a start to the first step")
    add("--checkpoint", type=_positive, default=60.0, help="seconds between two inside a round")
    add("--grace", type=float, default=0.0, help="GraceTime of the slots' partition, in seconds")
    add("--waiting", type=int, help="cluster.waiting; by default all slots may wait in the queue")
    add("--by-day", type=_count, help="slots wanted Monday to Friday, 8:00 to 18:00")
    add("--plan", type=_count, nargs="+", metavar="SLOTS", help="only time plans of so many slots")
    options = parser.parse_args(arguments)
    if options.days * DAY < 60.0 * options.round:
        parser.error(f"--days: {options.days:g} are shorter than a round (--round) of a pod")
    return options


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"want at least 1, got {text}")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"want a number above 0, got {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())

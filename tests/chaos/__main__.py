"""``python -m tests.chaos --faults 500 --seed 1``: storms on a real Slurm, and what they did."""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.chaos.faults import Fault, storms
from tests.chaos.storms import Campaign, Summary
from tests.chaos.views import Bad, lacking
from tests.chaos.world import SCENES, World

LONG = 200
"""From so many faults on, one of them is a coordinator that sleeps for longer than its lease."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="how many must hit (500)")
    parser.add_argument("--seed", type=int, default=1, help="decides which, and when (1)")
    parser.add_argument("--scene", choices=[scene.name for scene in SCENES],
                        help="the runs' kind (default: all in turn)")  # fmt: skip
    parser.add_argument("--views", action="store_true",
                        help="each machine sees the disk as it was (root, FUSE)")  # fmt: skip
    parser.add_argument("--log", type=Path, default=Path("chaos.jsonl"),
                        help="where each fault is written to (chaos.jsonl)")  # fmt: skip
    parser.add_argument("--replay", type=Path, help="a log: its faults again, at their moments")
    parser.add_argument("--keep", type=Path, help="where to copy everything if a promise is broken")
    options = parser.parse_args(arguments)
    if options.views and (why := lacking()):
        parser.error(f"--views: {why}")
    scenes = tuple(s for s in SCENES if options.scene in (None, s.name))
    told = read(options.replay) if options.replay is not None else None
    options.log.write_text("")
    # Whoever looks on meets all the damage there is: that is no news here.
    logging.getLogger("hpcpod").setLevel(logging.ERROR)
    # Not below a long path: sockets have names too.
    with tempfile.TemporaryDirectory(prefix="hpcpod-chaos-", dir="/tmp") as home:
        Path(home).chmod(0o755)
        with World.started(Path(home), off(options.seed) if options.views else None) as world:
            long, own, views = options.faults >= LONG, world.disk.own, options.views
            drawn = told or storms(options.seed, mounted=own, views=views, oversleep=long)
            summary = Summary(options.seed)
            try:
                Campaign(world, drawn, options.log, summary).run(options.faults, scenes)
            finally:
                print(summary.text(), flush=True)
                if options.keep is not None and (summary.violations or sys.exc_info()[0]):
                    copy = partial(shutil.copytree, symlinks=True, dirs_exist_ok=True)
                    copy(home, options.keep, ignore=shutil.ignore_patterns("views"))
                    slurm = options.keep / "slurm-log"
                    shutil.copytree(world.cluster.folder / "log", slurm, dirs_exist_ok=True)
    return 1 if summary.violations else 0


def off(seed: int) -> Bad:
    """Settings of a view whose server's clock is off, by up to two minutes."""
    return Bad(skew=random.Random(seed).uniform(-120.0, 120.0))


def read(log: Path) -> Iterator[list[Fault]]:
    """The storms that a log tells of."""
    storm: list[Fault] = []
    for line in log.read_text().splitlines():
        record = json.loads(line)
        fault = Fault(**{name: record[name] for name in Fault.__dataclass_fields__})
        if storm and fault.storm != storm[0].storm:
            yield storm
            storm = []
        storm.append(fault)
    if storm:
        yield storm


if __name__ == "__main__":
    sys.exit(main())

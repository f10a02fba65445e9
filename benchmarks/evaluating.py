"""The share of all cores that ``hpcpod evaluate`` keeps busy.

``python -m benchmarks.evaluating [--env HalfCheetah-v5] [--policies 8] [--episodes 64]``

The policies are untrained, each of another seed: what an episode costs is what counts. A core is
busy while a scorer lives, for none of them ever waits. That holds on a machine that others use,
too, where processor time says less.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import psutil

import hpcpod
from hpcpod.config.schema import EnvConfig
from tests.support.untrained import untrained


class Watch:
    """Counts the scorers that live, all the time."""

    def __init__(self, cores: int) -> None:
        self._cores, self._done = cores, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.shares: list[float] = []

    def _look(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.02):  # s
            alive = sum(child.status() != psutil.STATUS_ZOMBIE for child in me.children())
            self.shares.append(min(alive, self._cores) / self._cores)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


def processor() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--policies", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=64)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as home:
        env = EnvConfig(options.env)
        files = [untrained(Path(home) / f"{n}.h5", env, seed=n) for n in range(options.policies)]
        before, began = processor(), time.monotonic()
        with Watch(cores) as watch:
            found = hpcpod.evaluate(files, episodes=options.episodes, cores=cores)
        seconds, used = time.monotonic() - began, processor() - before
    busy = sum(watch.shares) / len(watch.shares)
    print(f"{options.policies} policies x {options.episodes} episodes of {options.env}")
    print(f"{len(found.rows)} rows in {seconds:.1f} s on {cores} cores")
    print(f"cores that had a scorer at work: {100 * busy:.1f} %")
    print(f"processor time of the scorers: {100 * used / seconds / cores:.1f} % of all cores")


if __name__ == "__main__":
    main()

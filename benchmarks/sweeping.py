"""The cost of a sweep beside its runs: ``python benchmarks/sweeping.py``, in some four minutes.

A sweep of a hundred short runs, launched as ``hpcpod launch`` does. Each run is a process of its
own, as of ``hpcpod launch``; all that this process does besides is the sweep's own: reading and
checking the cells, their folders, claims, outcomes, the table, the effects and the page. Printed
are processor time and wall time of each part. ``gaps`` are the wall time in which a place for a run
was empty: from the end of one to the begin of the next.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hpcpod.report.write import write_sweep_report
from hpcpod.run.sweeps import driver as driving
from hpcpod.run.sweeps.cells import read_plan
from hpcpod.run.sweeps.design import Cell
from hpcpod.run.sweeps.effects import analyse
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.launch import check, make

SWEPT = """\
name: swept
env: {{id: CartPole-v1, num_envs: 4}}
population: {{pods: {{min: 1, max: 1}}}}
round: {{env_steps: 256, episodes: 2}}
agents: {{ppo: {{horizon: 16, hidden: 16}}}}
stop: {{env_steps: 256, finalists: 1, confirm_episodes: 2}}
sweep:
  design: random
  cells: {cells}
  over:
    agents.ppo.learning_rate: {{log_uniform: [1.0e-4, 1.0e-2]}}
    agents.ppo.gamma: [0.9, 0.99]
"""

Times = dict[str, tuple[float, float]]


def cpu(who: int = resource.RUSAGE_SELF) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    wall, own = time.perf_counter(), cpu()
    yield
    times[name] = (cpu() - own, time.perf_counter() - wall)


class Timed(driving.Driver):
    """A driver that measures how long its places are empty."""

    def __init__(self, sweep: Sweep, at_once: int) -> None:
        super().__init__(sweep, at_once, lambda: False)
        self.gaps = 0.0
        self._empty: list[float] = []

    def _reap(self) -> None:
        before = len(self._work)
        began = time.perf_counter()
        super()._reap()
        self._empty += [began] * (before - len(self._work))

    def _begin(self, cell: Cell) -> bool | None:
        begun = super()._begin(cell)
        if begun and self._empty:
            self.gaps += time.perf_counter() - self._empty.pop()
        return begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--in", dest="home", help="a folder on the disk to measure (default: /tmp)")
    options = parser.parse_args()
    times: Times = {}
    with tempfile.TemporaryDirectory(dir=options.home) as folder:
        path = Path(folder) / "swept.yaml"
        path.write_text(SWEPT.format(cells=options.cells))
        with timed(times, "read the cells"):
            plan = read_plan(path)
        assert plan is not None
        children = cpu(resource.RUSAGE_CHILDREN)
        with timed(times, "check them, without the trial's process"):
            resolved = check(plan)
        trial = cpu(resource.RUSAGE_CHILDREN) - children
        with timed(times, "make their folders"):
            sweep = make(plan, resolved, Path(folder) / "runs")
        driver = Timed(sweep, options.at_once)
        began = time.perf_counter()
        with timed(times, "run them (its wall time is theirs)"):
            assert driver.run() == 0
        whole = time.perf_counter() - began
        with timed(times, "table, effects and page"), contextlib.redirect_stdout(io.StringIO()):
            rows = sweep.rows()
            analyse(sweep.factors, rows)
            write_sweep_report(sweep, Path(folder) / "report.html")
        assert all(outcome.fate == "finished" for _, outcome in rows)
    runs = cpu(resource.RUSAGE_CHILDREN) - children - trial
    print(f"{'':44} {'processor s':>12} {'wall s':>8}")
    for name, (own, wall) in times.items():
        print(f"{name:44} {own:12.2f} {wall:8.2f}")
    print(f"{'the sweep, together':44} {sum(own for own, _ in times.values()):12.2f}")
    print(f"{'gaps between two runs, together':44} {'':12} {driver.gaps:8.2f}")
    print(f"{'the trial of the task, as of any launch':44} {trial:12.2f}")
    print(f"{options.cells} runs {runs:.1f} s of processor time, {whole:.1f} s of wall time")


if __name__ == "__main__":
    main()

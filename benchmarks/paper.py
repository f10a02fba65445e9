"""Return against wall time on Ant and Humanoid: ``python benchmarks/paper.py --minutes M``.

The paper's figures 5 and 6 on the cores that are there: hpcpod's tournament (PPO alone, PPO and
SAC) beside one vanilla agent of its own, RLlib's PPO (its setting of ``peers.py`` with processes)
and Stable-Baselines3's with rl-baselines3-zoo's hyperparameters. All have the same cores, networks
of the same size, and ``M`` minutes from the start of their process; their policy is kept at equal
wall times and scored after the run, in fresh episodes. They take turns: nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from arms.cells import answer
from asked import ended, number, rows
from contenders.venvs import NotInstalled, python_of
from paper_runs.order import MARK, Order
from peers import names_of

from hpcpod.errors import UserError

HERE = Path(__file__).parent
TASKS = ("Ant-v5", "Humanoid-v5")
OURS = "hpcpod_run"
WAYS: Mapping[str, tuple[str, str]] = {
    "tournament ppo": (OURS, ""),
    "tournament ppo+sac": (OURS, ""),
    "vanilla ppo": (OURS, ""),
    "rllib": ("rllib_run", "rllib"),
    "sb3": ("sb3_run", "sb3"),
}
"""The module below ``paper_runs`` and the virtual environment of each."""
SCORING = 1800.0
"""Seconds that the snapshots' scores may take at most."""


@dataclass(frozen=True)
class Run:
    """A run, and its snapshots."""

    task: str
    way: str
    seed: int
    minutes: float
    snapshots: Sequence[tuple[float, int, float, float]]
    """Seconds, environment steps, mean return and its deviation over episodes, for each."""
    failure: str = ""


def main() -> None:
    options = parse(sys.argv[1:])
    runs = read(options.json)
    done = {(r.task, r.way, r.seed, r.minutes) for r in runs if not r.failure}
    for task, way, seed in () if options.table else wanted(options):
        if (task, way, seed, options.minutes) in done:
            continue
        runs.append(play(task, way, seed, options))
        last = runs[-1].failure or ", ".join(f"{mean:.0f}" for _, _, mean, _ in runs[-1].snapshots)
        print(f"{task} {way} {seed}: {last}", file=sys.stderr, flush=True)
        if options.json is not None:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(runs[-1])) + "\n")
    shown = [run for run in runs if run.minutes == options.minutes]
    shown = [run for run in shown if run.task in options.tasks and run.way in options.ways]
    if not shown:
        raise UserError(f"--table: no such run of {options.minutes:g} minutes in {options.json}")
    print(render(shown))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add, whole = parser.add_argument, number(int, 1)
    minutes = number(float, 0.01)
    add("--minutes", type=minutes, default=30.0, help="of each run (default: 30)")
    every = f"with commas; by default all of {', '.join(TASKS)}"
    add("--tasks", type=names_of(TASKS), default=list(TASKS), help=every)
    every = f"with commas; by default all of {', '.join(WAYS)}"
    add("--ways", type=names_of(WAYS), default=list(WAYS), help=every)
    add("--seeds", type=whole, default=3, help="1 to this number (default: 3)")
    add("--snapshots", type=whole, default=8, help="of each run (default: 8)")
    add("--episodes", type=whole, default=32, help="of each score (default: 32)")
    add("--cores", type=whole, default=2, help="of each run (default: 2)")
    add("--hidden", type=whole, default=256, help="units of each of two layers")
    add("--table", action="store_true", help="the table of --json, alone")
    add("--json", type=Path, help="append each run, and leave out what is there")
    add("--venvs", type=Path, default=HERE / ".venvs", help="their folder")
    options = parser.parse_args(arguments)
    if options.table and (options.json is None or not options.json.is_file()):
        parser.error(f"--json: --table needs a file of runs, got {options.json or 'none'}")
    return options


def read(path: Path | None) -> list[Run]:
    if path is None or not path.exists():
        return []
    return rows(Run, [path])


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Every run; a seed of all ways comes before the next seed."""
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for way in options.ways:
                yield task, way, seed


def play(task: str, way: str, seed: int, options: argparse.Namespace) -> Run:
    """One run in a process of its own, which scores its snapshots when it has ended."""
    module, venv = WAYS[way]
    seconds, found = 60 * options.minutes, []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            python = python_of(venv, options.venvs) if venv else Path(sys.executable)
            order = Order(
                way, task, seed, seconds, options.snapshots, options.cores, options.hidden,
                options.episodes, folder, time.time(),
            )  # fmt: skip
            command = [str(python), "-m", f"paper_runs.{module}"]
            out = answer(command, folder, json.dumps(asdict(order)), seconds + SCORING)
            found = json.loads(out.rpartition(MARK)[2])
        except (NotInstalled, subprocess.SubprocessError, ValueError) as error:
            return Run(task, way, seed, options.minutes, [], str(error)[-300:])
    return Run(task, way, seed, options.minutes, [tuple(row) for row in found])


def render(runs: Sequence[Run]) -> str:
    """A table for each task: mean returns at each snapshot, and steps at the last one."""
    return "\n\n".join(
        _table(task, [run for run in runs if run.task == task])
        for task in dict.fromkeys(run.task for run in runs)
    )


def _table(task: str, runs: Sequence[Run]) -> str:
    ways = [way for way in WAYS if any(run.way == way for run in runs)]
    ends = [each[0] for each in max((run.snapshots for run in runs), key=len)]
    most = len(ends)
    head = (task, *(f"{end:.0f} s" for end in ends), "env steps", "seeds")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for way in ways:
        mine = [run for run in runs if run.way == way and run.snapshots]
        # One that had no policy yet has fewer: its first snapshots are what is missing.
        late = [[None] * (most - len(run.snapshots)) + list(run.snapshots) for run in mine]
        columns = (_mean([s[2] for s in column if s]) for column in zip(*late, strict=True))
        steps = _mean([run.snapshots[-1][1] for run in mine])
        cells = (way, *(columns if mine else [""] * most), steps, str(len(mine)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    if not found:
        return ""
    mean = f"{statistics.fmean(found):,.0f}"
    if len(found) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(found) / len(found) ** 0.5:,.0f}"


if __name__ == "__main__":
    sys.exit(ended(main))

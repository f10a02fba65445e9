"""The learning gate of every algorithm, on several seeds: ``python benchmarks/learning.py``.

Each row is an algorithm on a task with the hyperparameters of ``configs/`` (those of a control),
trained to a budget of steps by hpcpod, and by stable-baselines3 where it has the algorithm: the
same seeds, steps, environments and hyperparameters. On the way and at the end the deterministic
policy is scored on the same 20 episodes. A row passes when the interquartile mean over the seeds
of the score *at the end* reaches the task's target; "below" the peer means below its 95 %
bootstrap interval. Seconds are those of training alone, on one thread.

All of it takes about two and a half hours on two cores, the classic tasks (``--rows classic``)
twenty minutes of them. With ``--json`` an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gates.rows import ROWS
from gates.running import append, interpreters, lines, measure
from gates.table import LIBRARIES, OURS, Run, render

HERE = Path(__file__).parent


def main() -> None:
    options = parse(sys.argv[1:])
    known = [Run(**each) for each in lines(options.json)] if options.json else []
    wanted = list(orders(options))
    if not options.report:
        done = [run for run in known if not run.failure]
        missing = [order for order in wanted if not any(same(run, order) for run in done)]
        try:
            pythons = interpreters(missing, options.sb3_python, options.venvs)
            for run in measure(missing, pythons, options.jobs):
                known.append(run)
                if options.json:
                    append(options.json, run.json())
        except KeyboardInterrupt:
            print("interrupted: this is what there is", file=sys.stderr)
    print(render(latest(known, wanted)))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ", ".join(ROWS)
    parser.add_argument(
        "--rows", type=_rows, default=list(ROWS),
        help=f"names or beginnings or families (classic, mujoco), comma-separated: {names}",
    )  # fmt: skip
    parser.add_argument("--libraries", type=_libraries, default=list(LIBRARIES))
    parser.add_argument("--seeds", type=int, default=5, help="1 to this number (default: 5)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes at once (default: cores)"
    )
    parser.add_argument("--pipeline", action="store_true", help="hpcpod's with pod.pipeline")
    parser.add_argument("--budget", type=float, default=1.0, help="factor of all steps")
    parser.add_argument("--quick", action="store_true", help="2 seeds, a tenth of the steps")
    parser.add_argument("--json", type=Path, metavar="OUT", help="append each run, a line each")
    parser.add_argument("--report", action="store_true", help="train nothing: the tables of OUT")
    parser.add_argument("--sb3-python", type=Path, help="a Python that has stable-baselines3")
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".venvs", help="where one is made, if none is given"
    )
    options = parser.parse_args(arguments)
    if options.report and options.json is None:
        parser.error("--report prints the tables of a file: say which by --json OUT")
    if options.quick:
        options.seeds, options.budget = min(2, options.seeds), 0.1 * options.budget
    return options


def _rows(text: str) -> list[str]:
    found = [
        name
        for name, row in ROWS.items()
        if any(row.family == word or name.startswith(word) for word in text.split(","))
    ]
    for word in text.split(","):
        if not any(ROWS[name].family == word or name.startswith(word) for name in found):
            raise argparse.ArgumentTypeError(f"{word} is none of classic, mujoco, {list(ROWS)}")
    return found


def _libraries(text: str) -> list[str]:
    for word in text.split(","):
        if word not in LIBRARIES:
            raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(LIBRARIES)}")
    return text.split(",")


def orders(options: argparse.Namespace) -> Iterator[Run]:
    """Every run that is asked for, without its curve, row by row."""
    for name in options.rows:
        row = ROWS[name]
        for seed in range(1, options.seeds + 1):
            for library in options.libraries:
                order = row.order(seed, options.budget, options.quick)
                if library == OURS:
                    yield Run(
                        name, library, order | ({"pipeline": True} if options.pipeline else {})
                    )
                elif row.peer:
                    yield Run(name, library, order)


def same(one: Run, other: Run) -> bool:
    """Whether both were asked for the same: a changed hyperparameter makes another run."""
    return (one.row, one.library, one.order) == (other.row, other.library, other.order)


def latest(runs: list[Run], wanted: list[Run]) -> list[Run]:
    """Of each run that is asked for the last that there is."""
    found = [[run for run in runs if same(run, order)][-1:] for order in wanted]
    return [run for each in found for run in each]


if __name__ == "__main__":
    main()

"""The tournament on recorded learning curves: ``python benchmarks/curves.py``.

Hundreds of runs that differ by the luck of their draws, in minutes: what a few live runs of
``tournament.py`` can't show. Each task's ranges, rounds and budgets are those of ``tournament.py``;
``data/curves`` holds the returns of 48 to 128 draws, trained alone, as ``--record TASK`` does. It
says who trains and who is copied too soon, not what copies win: ``recorded_curves/replay.py`` says
why. To play the rules of another checkout: ``PYTHONPATH=CHECKOUT python benchmarks/curves.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from arms.hpcpod_run import RESERVE
from arms.order import PODS
from arms.tasks import TASKS, TRAININGS
from asked import ended, number, plugin
from peers import names_of
from recorded_curves.recording import Array, Curves, read, recorded, write
from recorded_curves.replay import Budget, random_search, replayed

import hpcpod

DATA = Path(__file__).parent / "data" / "curves"
RECORDED = {path.stem: path for path in sorted(DATA.glob("*.npz"))}
ROUNDS = 24
"""Rounds of a recorded draw."""
FAILED = 0.5
"""A delivered policy has failed below this part of the way from random actions to the task."""
RANDOM = "random search"


def main() -> None:
    options = parse(sys.argv[1:])
    if options.record:
        for task in options.record:
            write(options.data / f"{task}.npz", recorded(task, ROUNDS))
        return
    print(f"rules of {Path(hpcpod.__file__).parent}", file=sys.stderr)
    print("| task | budget | who trains | delivered | worst tenth | failed |")
    print("|---|---|---|---|---|---|")
    for task in options.tasks:
        curves = read(options.data / f"{task}.npz")
        for told, budget in budgets(task):
            for who in (*options.allocators, RANDOM):
                scores = np.array(list(played(curves, task, budget, who, options)))
                print(row(task, told, who, scores), flush=True)


def budgets(task: str) -> Iterator[tuple[str, Budget]]:
    """The budgets of ``tournament.py``, in words and as they are."""
    rounds, seconds = TRAININGS * TASKS[task].rounds, TASKS[task].seconds - RESERVE
    yield f"{rounds} rounds, one slot", Budget(1, rounds=rounds)
    yield f"{seconds:.0f} s, two slots", Budget(2, seconds=seconds)


def played(
    curves: Curves, task: str, budget: Budget, who: str, options: argparse.Namespace
) -> Iterator[float]:
    """The score of each replicate."""
    for replicate in range(options.first, options.first + options.replicates):
        if who == RANDOM:
            whole = options.training or TASKS[task].rounds
            yield random_search(curves, budget, whole, replicate)
        else:
            yield replayed(curves, budget, options.pods, who, replicate)


def row(task: str, budget: str, who: str, scores: Array) -> str:
    """A line of the table."""
    error = scores.std(ddof=1) / len(scores) ** 0.5
    low, high = TASKS[task].low, TASKS[task].high
    failed = (scores < low + FAILED * (high - low)).mean()
    tenth = np.quantile(scores, 0.1)
    mean = f"{scores.mean():.1f} ± {error:.1f}"
    return f"| {task} | {budget} | {who} | {mean} | {tenth:.1f} | {100 * failed:.1f} % |"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--tasks", type=names_of(RECORDED), default=list(RECORDED), help="with commas")
    allocators = plugin("allocators")
    add("--allocators", nargs="+", type=allocators, default=["auto"], metavar="NAME")
    add("--pods", type=number(int, 1), default=PODS, help="places of the population")
    add("--replicates", type=int, default=200)
    first = "of the replicates (default: 0)"
    add("--first", type=number(int, 0), default=0, metavar="N", help=first)
    add("--training", type=int, metavar="ROUNDS", help="of random search (default: the task's)")
    add("--record", type=names_of(TASKS), help="train draws of these tasks, and keep their curves")
    add("--data", type=Path, default=DATA, help="folder of the curves")
    options = parser.parse_args(arguments)
    if options.replicates < 2:
        parser.error("--replicates: an error needs at least 2")
    files = [options.data / f"{task}.npz" for task in options.tasks]
    lacking = [file for file in files if not file.is_file()]
    if not options.data.is_dir():
        parser.error(f"--data: no such folder: {options.data}")
    if lacking and not options.record:
        parser.error(f"--data: no such file: {lacking[0]}; --tasks: those that have one")
    if options.training is not None:
        most = min(read(file).returns.shape[1] for file in files)
        if not 1 <= options.training <= most:
            parser.error(f"--training: 1 to {most}, the rounds that all of these curves have")
    return options


if __name__ == "__main__":
    sys.exit(ended(main))

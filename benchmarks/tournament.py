"""The delivered policy of each optimiser at equal cost: ``python benchmarks/tournament.py``.

Every arm trains hpcpod's own agent, so that only the optimiser differs: hpcpod's tournament and its
variants, random search, Ray Tune's PBT and ASHA, SMAC3, Optuna, and one long run with
rl-baselines3-zoo's hyperparameters. Each has a virtual environment of its own where it needs one
(made at the first run, about 1.5 GB each). The budget is that of 32 full trainings, in environment
steps, or a time on two slots (``--axis seconds``: only on cores that nobody else uses). Episodes
that score a round are free in the first and cost time in the second. What counts is the policy that
an arm delivers, on fresh episodes.

A cell (axis, task, arm, seed) is a file, and at the end a line of ``data/tournament.jsonl``; an
interrupted benchmark goes on where it stopped, and a task that was changed is played again.
``--table`` plays nothing, and shows the seeds and the axis that were asked for, by default all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from arms import cells
from arms.cells import Cell
from arms.registry import ARMS, OURS
from arms.table import render
from arms.tasks import TASKS
from asked import ended, number
from contenders.venvs import NotInstalled, python_of
from peers import names_of

from hpcpod.errors import UserError

HERE = Path(__file__).parent
QUICK = 1 / 16
"""Share of each budget that ``--quick`` spends."""
SEEDS = 5
PLAIN = [name for name, arm in ARMS.items() if not arm.asked]


def main() -> None:
    options = parse(sys.argv[1:])
    if not options.table:
        pythons = interpreters(options.arms, options.venvs)
        lacking = list(cells.missing(wanted(options), known_of(options)))
        share = QUICK if options.quick else 1.0
        with ThreadPoolExecutor(options.workers) as pool:
            futures = [
                pool.submit(cells.played, cell, share, pythons[cell.arm], Path(sys.executable))
                for cell in lacking
                if cell.arm in pythons
            ]
            try:
                for count, future in enumerate(as_completed(futures), 1):
                    told(future.result(), count, len(futures), options.cells)
            except KeyboardInterrupt:
                print("interrupted: the cells that have begun end first", file=sys.stderr)
                pool.shutdown(cancel_futures=True)
    known = known_of(options)
    if not options.quick and not options.table:
        lines = [json.dumps(asdict(cell)) + "\n" for cell in known]
        options.json.write_text("".join(lines), encoding="utf-8")
    chosen = [cell for cell in known if is_asked(cell, options)]
    if not chosen:
        raise UserError("none of the cells that were asked for has been played")
    print(render(chosen, options.arms))


def is_asked(cell: Cell, options: argparse.Namespace) -> bool:
    """True of a cell for the table; where no seeds or no axis was named, of each of them."""
    return (
        cell.arm in options.arms
        and cell.task in options.tasks
        and options.axis in (None, cell.axis)
        and (options.seeds is None or cell.seed <= options.seeds)
    )


def known_of(options: argparse.Namespace) -> list[Cell]:
    """Played cells of these tasks: those of the kept file, and newer ones in the folder."""
    kept = [] if options.quick else cells.read(options.json)
    share = QUICK if options.quick else 1.0
    found = {
        cell.path: cell
        for cell in (*kept, *cells.read(options.cells))
        if cell.made == cells.made(cell.task, share)
    }
    return [found[path] for path in sorted(found)]


def told(cell: Cell, count: int, of: int, folder: Path) -> None:
    """Keep a cell, and say what came of it."""
    cells.write(folder, cell)
    score = f"{cell.mean} (shown {cell.claimed:.1f}) in {cell.seconds:.0f} s"
    said = cell.failure or score
    print(f"{count}/{of} {cell.path.with_suffix('')}: {said}", file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked = ", ".join(name for name in ARMS if name not in PLAIN)
    parser.add_argument("--tasks", type=names_of(TASKS), default=list(TASKS),
        help=f"with commas; by default all of {', '.join(TASKS)}")  # fmt: skip
    parser.add_argument("--arms", type=names_of(ARMS), default=PLAIN,
        help=f"with commas; by default {', '.join(PLAIN)}; only where named {asked}")  # fmt: skip
    parser.add_argument("--seeds", type=number(int, 1),
        help=f"1 to this number (default: {SEEDS}; of --table all)")  # fmt: skip
    parser.add_argument("--axis", choices=["env_steps", "seconds"],
        help="default: env_steps; of --table both")  # fmt: skip
    parser.add_argument("--slots", type=number(int, 1),
        help="default: 1, and 2 where the axis is seconds")  # fmt: skip
    parser.add_argument("--workers", type=number(int, 1), default=1,
        help="cells at once (default: 1)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a 16th of each budget")
    parser.add_argument("--table", action="store_true", help="the table of what there is, alone")
    parser.add_argument("--cells", type=Path, help="folder of new cells (default: .tournament)")
    parser.add_argument(
        "--json",
        type=Path,
        default=HERE / "data" / "tournament.jsonl",
        help="file in which all cells are kept, a line each",
    )
    parser.add_argument("--venvs", type=Path, default=HERE / ".venvs", help="their folder")
    options = parser.parse_args(arguments)
    if options.cells is None:
        options.cells = HERE / (".tournament-quick" if options.quick else ".tournament")
    if options.slots is None:
        options.slots = 2 if options.axis == "seconds" else 1
    if options.table and not options.quick and not options.json.is_file():
        parser.error(f"--json: no such file: {options.json}")
    return options


def wanted(options: argparse.Namespace) -> Iterator[Cell]:
    """Every cell, seed by seed, so that an early end leaves complete tables of fewer seeds."""
    share = QUICK if options.quick else 1.0
    for seed in range(1, (options.seeds or SEEDS) + 1):
        for task in options.tasks:
            for arm in options.arms:
                made = cells.made(task, share)
                yield Cell(task, arm, seed, options.axis or "env_steps", made, options.slots)


def interpreters(arms: list[str], venvs: Path) -> dict[str, Path]:
    """The Python of each arm; one that can't be made is left out, with a word about it."""
    found: dict[str, Path] = {}
    for arm in arms:
        venv = ARMS[arm].venv
        try:
            found[arm] = Path(sys.executable) if venv == OURS else python_of(venv, venvs)
        except NotInstalled as error:
            print(f"{arm} is left out, not installable: {error}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(ended(main))

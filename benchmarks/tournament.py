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
``--table`` plays nothing.
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
from contenders.venvs import NotInstalled, python_of
from peers import names_of

HERE = Path(__file__).parent
QUICK = 1 / 16
"""Share of each budget that ``--quick`` spends."""
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
    chosen = [c for c in known if c.arm in options.arms and c.task in options.tasks]
    print(render(chosen))


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
    parser.add_argument("--tasks", type=names_of(TASKS), default=list(TASKS), help="with commas")
    parser.add_argument("--arms", type=names_of(ARMS), default=PLAIN, help="with commas")
    parser.add_argument("--seeds", type=int, default=5, help="1 to this number (default: 5)")
    parser.add_argument("--axis", choices=["env_steps", "seconds"], default="env_steps")
    parser.add_argument("--slots", type=int, help="default: 1, and 2 where the axis is seconds")
    parser.add_argument("--workers", type=int, default=1, help="cells at once (default: 1)")
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
    return options


def wanted(options: argparse.Namespace) -> Iterator[Cell]:
    """Every cell, seed by seed, so that an early end leaves complete tables of fewer seeds."""
    share = QUICK if options.quick else 1.0
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for arm in options.arms:
                made = cells.made(task, share)
                yield Cell(task, arm, seed, options.axis, made, options.slots)


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
    main()

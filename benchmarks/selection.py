"""The tournament's selection: is the better pod chosen, and is what it says true?

    python benchmarks/selection.py                          # everything, 100 replicates
    python benchmarks/selection.py --scenario equal target  # two of the scenarios
    python benchmarks/selection.py --against PATH           # beside another checkout, or its rows
    python benchmarks/selection.py --scenario trap --generator gentle_truncation random_search
    python benchmarks/selection.py --components             # the default beside all other rules

Populations without networks: reports are made up by a model of learning, and the real rules
(``hpcpod.tournament``) merge them. What each scenario assumes stands in its module in
``selection_scenarios/``. It shows what the rules do to such a population, not that they win on a
real task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from asked import ended, number, plugin
from selection_scenarios import (
    budget,
    components,
    equal,
    fast_node,
    first_row,
    mutation,
    schemes,
    seeds,
    sparse,
    speeds,
    target,
    trap,
    unseen,
)
from selection_scenarios.measures import Row, render
from selection_scenarios.world import Settings

import hpcpod

HERE = Path(__file__).parent
GIVEN = ("updater", "generator", "allocator", "world", "second-looks", "json", "against")
"""Options that ``--components`` has not."""
SCENARIOS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "budget": budget.rows,
    "equal": equal.rows,
    "first_row": first_row.rows,
    "speeds": speeds.rows,
    "fast_node": fast_node.rows,
    "schemes": schemes.rows,
    "target": target.rows,
    "sparse": sparse.rows,
    "trap": trap.rows,
    "mutation": mutation.rows,
    "seeds": seeds.rows,
    "unseen": unseen.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.components is not None:
        return beside_the_default(options)
    columns = {}
    if options.against is not None:
        columns["before"] = elsewhere(options)
    names: list[str | None] = options.generator or [None]
    for name in names:
        columns[name or ("after" if columns else "these")] = measured(options, name)
    print(render(columns))
    return 0


def beside_the_default(options: argparse.Namespace) -> int:
    """Every component that was asked for, one at a time, as a column of its own."""
    print(f"rules of {Path(hpcpod.__file__).parent}", file=sys.stderr)
    columns = {}
    settings = Settings(options.replicates, seed=options.seed)
    for name in options.components or components.COMPONENTS:
        begun = time.monotonic()
        columns[name] = components.kept(name, settings, options.cells)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    if components.DEFAULT in columns:
        print(components.table(columns), end="\n\n")
    rest = {
        name: [row for row in rows if row.scenario != "delivered"] for name, rows in columns.items()
    }
    print(render(rest))
    return 0


def measured(options: argparse.Namespace, generator: str | None = None) -> list[Row]:
    """Every scenario that was asked for, by the hpcpod that this Python imports."""
    print(f"rules of {Path(hpcpod.__file__).parent}", file=sys.stderr)
    settings = Settings(
        options.replicates, options.updater, options.seed, generator, options.second_looks,
        options.allocator, options.world,
    )  # fmt: skip
    rows = []
    for name in options.scenario:
        begun = time.monotonic()
        rows += list(SCENARIOS[name](settings))
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(row) for row in rows]))
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return rows


def elsewhere(options: argparse.Namespace) -> list[Row]:
    """The same, by another checkout, with the updater that is the default there; or as it was."""
    if options.against.is_file():
        return Row.read(options.against)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rows.json"
        subprocess.run(
            [
                sys.executable, __file__, "--json", str(result), "--seed", str(options.seed),
                "--replicates", str(options.replicates), "--scenario", *options.scenario,
                *(["--allocator", *options.allocator] if options.allocator else []),
                *(["--world", *options.world] if options.world else []),
            ],
            env={**os.environ, "PYTHONPATH": str(options.against.resolve())},
            stdout=subprocess.DEVNULL,
            check=True,
        )  # fmt: skip
        return Row.read(result)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--scenario", choices=SCENARIOS, nargs="+", default=list(SCENARIOS), metavar="NAME",
        help=f"by default all of {', '.join(SCENARIOS)}")  # fmt: skip
    add("--replicates", type=int, default=100)
    add("--updater", type=plugin("updaters"),
        help="a name or a path; by default the configuration's default")  # fmt: skip
    add(
        "--generator",
        type=plugin("generators"),
        nargs="+",
        metavar="NAME",
        help="names or paths, each a line of its own; budget is then played by fair alone",
    )
    allocators = ("auto", *budget.ALLOCATORS)
    add("--allocator", nargs="+", default=(), choices=allocators, metavar="NAME",
        help=f"of budget and unseen: these alone of {', '.join(allocators)}")  # fmt: skip
    worlds = [*budget.EVERY, *unseen.WORLDS]
    add("--world", nargs="+", default=(), choices=worlds, metavar="NAME",
        help=f"of budget and unseen: these alone of {', '.join(worlds)}")  # fmt: skip
    share = number(float, 0, 1)
    add("--second-looks", type=share, default=0.0, metavar="SHARE", help="as in population")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="write the rows there, after every scenario")
    add(
        "--against",
        type=Path,
        metavar="PATH",
        help="a checkout to be played too, or rows of --json",
    )
    every = components.COMPONENTS
    add(
        "--components",
        nargs="*",
        choices=every,
        metavar="COMPONENT",
        help=f"the default with one of its rules changed, by default all of {', '.join(every)}",
    )
    add(
        "--cells",
        type=Path,
        default=HERE / "data" / "selection",
        metavar="DIR",
        help="of --components: a file of each, so that the command goes on where it ended",
    )
    options = parser.parse_args(arguments)
    check(options, parser)
    return options


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuse what is not there, and what can't be played together."""
    path = options.against
    if path is not None and not (path.is_file() or (path / "hpcpod" / "__init__.py").is_file()):
        parser.error(f"--against: no such checkout of hpcpod, nor file of rows: {path}")
    if options.json is not None and len(options.generator or []) > 1:
        parser.error("--json: rows of one generator at a time")
    if options.components is not None:
        for word in GIVEN:
            name = word.replace("-", "_")
            if getattr(options, name) != parser.get_default(name):
                parser.error(f"--{word}: not beside --components, whose worlds and rules are given")
    if options.replicates < 2:
        parser.error("--replicates: an error needs at least 2")


if __name__ == "__main__":
    sys.exit(ended(main))

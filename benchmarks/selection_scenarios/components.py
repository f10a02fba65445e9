"""The default beside each other allocator, generator and updater, one of them changed at a time.

In every world of ``budget``, in the trap, and, where the allocator is the default's, among equals
and with rare failures.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hpcpod import tournament
from selection_scenarios import budget, equal, first_row, trap
from selection_scenarios.measures import Number, Row
from selection_scenarios.world import Settings

DEFAULT = "default"
ALLOCATORS = (*budget.ALLOCATORS, "replicates")
GENERATORS = ("random_search", "ranking", "multi_frequency", "restarts", "pb2")
UPDATERS = ("welch_gate", "pareto", "ranking")
COMPONENTS = (
    DEFAULT,
    *(f"allocator={name}" for name in ALLOCATORS),
    *(f"generator={name}" for name in GENERATORS),
    *(f"updater={name}" for name in UPDATERS),
)
DELIVERED = "true score delivered"
SHOWN = 3.0
"""Errors of a difference from which on it is marked: of 200 differences that are none, 0.3 are."""


def rows(component: str, settings: Settings) -> Iterator[Row]:
    """The rows of runs with this component, all others being the configuration's default."""
    kind, _, name = component.partition("=")
    played = settings
    if kind == "generator":
        played = replace(settings, generator=name)
    elif kind == "updater":
        played = replace(settings, updater=name)
    allocator = name if kind == "allocator" else "auto"
    for case, world in budget.EVERY.items():
        yield Row("delivered", case, budget.outcome(world, allocator, False, played))
    if kind == "allocator":
        return
    for cost in trap.COSTS:
        for episodes in trap.EPISODES:
            found = trap.outcome(trap.COSTS[cost], episodes, False, played)
            yield Row("delivered", f"greed, {cost}, {episodes} episodes", found)
    yield from equal.rows(played)
    yield from first_row.rows(played)


def kept(component: str, settings: Settings, cells: Path) -> list[Row]:
    """The rows of a component, from its file if it was played before by the same code."""
    path = cells / f"{component}.{settings.replicates}.{settings.seed}.{code()}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = json.dumps([asdict(row) for row in rows(component, settings)])
        path.with_suffix(".part").write_text(found)
        path.with_suffix(".part").replace(path)
    return Row.read(path)


def code() -> str:
    """A digest of the rules and of the worlds."""
    found = hashlib.sha256()
    for folder in (Path(tournament.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:8]


def table(columns: Mapping[str, Sequence[Row]]) -> str:
    """Markdown: what each component delivers in each world, bold where it beats the default."""
    found = {
        name: {row.case: row.numbers[DELIVERED] for row in rows if DELIVERED in row.numbers}
        for name, rows in columns.items()
    }
    lines = [["world", *found], ["---"] * (len(found) + 1)]
    for case, default in found[DEFAULT].items():
        cells = (numbers.get(case) for numbers in found.values())
        lines.append([case, *("" if cell is None else marked(cell, default) for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def marked(number: Number, default: Number) -> str:
    """A number, bold if it is beyond the default's by three errors of the difference."""
    better = number.value - default.value > SHOWN * math.hypot(number.error, default.error)
    return f"**{number}**" if better else str(number)

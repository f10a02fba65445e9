"""ARLBench's tables: returns of configurations by training seed and budget, and what was published.

The files are ``sobol_<task>.csv.gz`` (configurations drawn in advance, each trained with ten seeds
and scored at ten budgets) and ``rs.``, ``smac.`` and ``smac_mf.<task>.csv.gz`` (what optimisers
tried, with the training seeds 0, 1 and 2), of github.com/automl/arlbench.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
OPTIMISERS = ("rs", "smac", "smac_mf")
OBJECTIVE = 3
"""Training seeds whose mean the published optimisers maximised."""


@dataclass(frozen=True)
class Table:
    """The returns of one task's configurations."""

    task: str
    returns: Array
    """(configurations, seeds, budgets), each the mean of 128 episodes; complete ones alone."""
    published: dict[str, list[Array]]
    """Configurations, (number, 3), that each run of an optimiser tried in full, by optimiser."""


def tasks(folder: Path) -> list[str]:
    """The tasks whose tables are in a folder."""
    return sorted(path.name[6:-7] for path in folder.glob("sobol_*.csv.gz"))


def read(folder: Path, task: str) -> Table:
    """The tables of a task.

    Raises:
        OSError, ValueError, KeyError: a file is not there, or not a table.
    """
    found: dict[tuple[int, int, float], float] = {}
    for row in _rows(folder / f"sobol_{task}.csv.gz"):
        if row["performance"]:
            place = int(row["run_id"]), int(row["seed"]), float(row["budget"])
            found[place] = float(row["performance"])
    configurations, seeds, budgets = (sorted(set(each)) for each in zip(*found, strict=True))
    whole = np.array(
        [[[found.get((c, s, b), np.nan) for b in budgets] for s in seeds] for c in configurations]
    )
    complete = whole[~np.isnan(whole).any(axis=(1, 2))]
    published = {
        name: runs_of(path)
        for name in OPTIMISERS
        if (path := folder / f"{name}.{task}.csv.gz").is_file()
    }
    return Table(task, complete, published)


def runs_of(path: Path) -> list[Array]:
    """The trainings at the full budget of each run of a published optimiser."""
    rows = [row for row in _rows(path) if row["performance"]]
    full = max(float(row["budget"]) for row in rows)
    runs: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if float(row["budget"]) == full:
            tried = runs.setdefault(row["optimisation_seed"], {}).setdefault(row["config_id"], {})
            tried[int(row["seed"])] = float(row["performance"])
    return [
        np.array(
            [[tried[s] for s in range(OBJECTIVE)] for tried in run.values() if len(tried) == 3]
        )
        for run in runs.values()
    ]


def left_one_out(run: Array) -> float:
    """The true score of what an optimiser chose, without its luck: chosen by the mean of all seeds
    but one, scored by that one; the mean over the three."""
    scores = []
    for left in range(run.shape[1]):
        chosen = np.delete(run, left, axis=1).mean(axis=1).argmax()
        scores.append(run[chosen, left])
    return float(np.mean(scores))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)

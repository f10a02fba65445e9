"""The tables of ``benchmarks/tournament.py``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from arms.cells import Cell
from arms.registry import ARMS
from arms.tasks import TASKS
from hpcpod.tournament.scores import improvement_over_tasks, improvement_test, iqm, iqm_interval

OURS = "tournament"
"""The arm with which all others are compared."""
Scores = Mapping[str, Sequence[float]]
"""Of one arm, by task: a score for each seed."""


def render(cells: Sequence[Cell], order: Iterable[str] = ARMS) -> str:
    """A table for each axis, its arms in this order, and what it says in sum."""
    axes = list(dict.fromkeys(cell.axis for cell in cells))
    return "\n\n".join(_of([c for c in cells if c.axis == axis], axis, order) for axis in axes)


def _of(cells: Sequence[Cell], axis: str, order: Iterable[str]) -> str:
    scored = [cell for cell in cells if cell.mean is not None]
    arms = [name for name in order if any(cell.arm == name for cell in cells)]
    tasks = [name for name in TASKS if any(cell.task == name for cell in cells)]
    by = {arm: scores_of(scored, arm) for arm in arms}
    whole = [task for task in tasks if all(by[arm].get(task) for arm in arms)]
    each = ["each seed"] if len(tasks) == 1 else []
    head = ("arm", *tasks, *each, "IQM", f"{OURS} above it", "shown - true", "env steps", "s")
    lines = [f"Equal {axis.replace('_', ' ')}.", ""]
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for arm in arms:
        mine = [cell for cell in scored if cell.arm == arm]
        failed = sum(cell.arm == arm and cell.mean is None for cell in cells)
        row = (
            ARMS[arm].words + (f" ({failed} failed)" if failed else ""),
            *(mean_of(by[arm].get(task, ())) for task in tasks),
            *(", ".join(map(single, by[arm].get(tasks[0], ()))) for _ in each),
            interquartile(by[arm], whole),
            "" if arm == OURS or OURS not in by else chance(by[OURS], by[arm], tasks),
            optimism(mine),
            f"{statistics.fmean(cell.env_steps for cell in mine):,.0f}" if mine else "",
            f"{statistics.median(cell.seconds for cell in mine):.0f}" if mine else "",
        )
        lines.append(f"| {' | '.join(row)} |")
    over = ", ".join(whole) or "no task yet"
    commits = ", ".join(sorted({cell.commit for cell in scored if cell.commit}))
    lines += ["", f"IQM: over what every arm has played: {over}."]
    return "\n".join([*lines, *([f"Played at {commits}."] if commits else [])])


def scores_of(cells: Sequence[Cell], arm: str) -> dict[str, list[float]]:
    """The scores of an arm by task, in the order of its seeds."""
    found: dict[str, list[float]] = {}
    for cell in sorted(cells, key=lambda cell: cell.seed):
        if cell.arm == arm and cell.mean is not None:
            found.setdefault(cell.task, []).append(cell.mean)
    return found


def mean_of(scores: Sequence[float]) -> str:
    """Mean over seeds, its standard error, and how many there are; of one seed its score alone."""
    if len(scores) < 2:
        return single(scores[0]) if scores else ""
    digits = 1 if max(map(abs, scores)) < 100 else 0
    mean = f"{unsigned(statistics.fmean(scores), digits):.{digits}f}"
    error = statistics.stdev(scores) / len(scores) ** 0.5
    return f"{mean} ± {error:.{digits}f} ({len(scores)})"


def single(score: float) -> str:
    """The score of one seed."""
    digits = 1 if abs(score) < 1000 else 0
    return f"{unsigned(score, digits):,.{digits}f}"


def unsigned(value: float, digits: int) -> float:
    """A rounded number, in which no zero has a sign."""
    return round(value, digits) + 0.0


def scaled(scores: Scores, tasks: Sequence[str]) -> list[list[float]]:
    """Scores on the common scale, a stratum for each task."""
    return [[TASKS[task].scaled(score) for score in scores[task]] for task in tasks]


def interquartile(scores: Scores, tasks: Sequence[str]) -> str:
    """The interquartile mean over tasks and seeds, with its stratified bootstrap interval."""
    if not tasks:
        return ""
    strata = scaled(scores, tasks)
    return f"{iqm(np.concatenate(strata)):.2f}{interval(*iqm_interval(strata), strata)}"


def chance(one: Scores, other: Scores, tasks: Sequence[str]) -> str:
    """The probability that a run of one arm scores above a run of another, mean over the tasks of
    both, with its bootstrap interval, too narrow of few seeds; and the p of a permutation test."""
    both = [task for task in tasks if one.get(task) and other.get(task)]
    if not both:
        return ""
    strata = [one[task] for task in both], [other[task] for task in both]
    found, p = improvement_over_tasks(*strata), improvement_test(*strata)
    within = interval(found.low, found.high, [*strata[0], *strata[1]])
    return f"{found.probability:.2f}{within}, p {p:.2g}"


def interval(low: float, high: float, strata: Sequence[Sequence[float]]) -> str:
    """A bootstrap's interval in brackets; of a single seed of each task it would have no width."""
    return f" ({low:.2f} to {high:.2f})" if max(map(len, strata)) > 1 else ""


def optimism(cells: Sequence[Cell]) -> str:
    """Excess of an arm's shown score over the true one, mean on the common scale."""
    if not cells:
        return ""
    apart = [TASKS[c.task].scaled(c.claimed) - TASKS[c.task].scaled(c.mean or 0.0) for c in cells]
    return f"{unsigned(statistics.fmean(apart), 3):+.3f}"

"""The table of single runs: the mean of the seeds, and the values between which they lie."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from simulation.run import Outcome
from simulation.trace import HOUR, MINUTE

COMMANDS = ("squeue", "sinfo", "sbatch", "scontrol", "scancel")
"""Of a run's owner. Batch scripts of slots ask too, once or twice when a slot ends early."""


@dataclass(frozen=True)
class Row:
    """One way on one trace."""

    seed: int
    mode: str
    way: str
    outcome: Outcome


Number = Callable[[Row], float]


def render(rows: Sequence[Row]) -> str:
    """Three tables as Markdown: what was used, what was wasted, what the scheduler was asked."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.mode, row.way), []).append(row)
    paused = [
        f"{row.mode}, {row.way}, seed {row.seed}: paused: {row.outcome.paused}"
        for row in rows
        if row.outcome.paused
    ]
    parts = [
        _table(
            [
                ("GPU-hours left", lambda r: r.outcome.bound.all / HOUR, ",.0f", ""),
                ("to so many slots", lambda r: r.outcome.bound.seconds / HOUR, ",.0f", ""),
                ("trained", lambda r: r.outcome.ledger.trained / HOUR, ",.0f", ""),
                ("of the bound", lambda r: 100 * r.outcome.used, ".1f", " %"),
                ("held, of the bound", _held, ".1f", " %"),
                ("rounds", lambda r: float(r.outcome.reports), ",.0f", ""),
                ("GPU free to training, median", lambda r: r.outcome.delay(50), ",.0f", " s"),
                ("p95", lambda r: r.outcome.delay(95), ",.0f", " s"),
            ],
            groups,
        ),
        _table(
            [
                ("wasted GPU-minutes", lambda r: r.outcome.ledger.wasted / MINUTE, ",.0f", ""),
                ("of all allocated", _wasted, ".2f", " %"),
                ("starting", lambda r: r.outcome.ledger.starting / MINUTE, ",.0f", ""),
                ("lost work", lambda r: r.outcome.ledger.lost / MINUTE, ",.0f", ""),
                ("saving", lambda r: r.outcome.ledger.saving / MINUTE, ",.0f", ""),
                ("without an order", lambda r: r.outcome.ledger.waiting / MINUTE, ",.0f", ""),
            ],
            groups,
        ),
        _table(
            [
                *((f"{name} an hour", _hourly(name), ".1f", "") for name in COMMANDS),
                ("by slots", _hourly("by slots"), ",.0f", ""),
            ],
            groups,
        ),
        "\n".join(paused),
    ]
    return "\n\n".join(part for part in parts if part)


def _held(row: Row) -> float:
    return 100 * row.outcome.allocated / max(row.outcome.bound.seconds, 1.0)


def _wasted(row: Row) -> float:
    return 100 * row.outcome.ledger.wasted / max(row.outcome.allocated, 1.0)


def _hourly(kind: str) -> Number:
    return lambda row: row.outcome.hourly(kind)


def _table(
    columns: Sequence[tuple[str, Number, str, str]], groups: dict[tuple[str, str], list[Row]]
) -> str:
    lines = [["preemption", "way", *(name for name, _, _, _ in columns)]]
    lines.append(["---"] * len(lines[0]))
    for (mode, way), rows in groups.items():
        cells = [_cell(map(number, rows), form, unit) for _, number, form, unit in columns]
        lines.append([mode.upper(), way, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(values: Iterable[float], form: str, unit: str) -> str:
    """``12 [10, 14] s``: the mean, and the lowest and the highest, if there are several."""
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return "none"
    mean = format(statistics.fmean(values), form)
    if len(values) == 1:
        return mean + unit
    return f"{mean} [{format(min(values), form)}, {format(max(values), form)}]{unit}"

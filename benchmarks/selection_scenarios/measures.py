"""Numbers with their errors, and the tables that they stand in."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

Z = 1.959964
"""Standard errors of a two-sided 95 % interval."""


@dataclass(frozen=True)
class Number:
    """A mean or a share over replicates."""

    value: float
    """nan if there was nothing to average."""
    error: float
    """Standard error; of a share, by its binomial variance."""
    low: float
    """Lower end of the 95 % interval: Wilson's of a share, the mean less 1.96 errors."""
    high: float
    count: int
    """Values that it is the mean of, or replicates."""
    share: bool = False

    def __str__(self) -> str:
        if not self.count:
            return "-"
        if self.share:
            return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
        places = 0 if max(abs(self.value), 10 * self.error) >= 1000 else 1
        places = 2 if abs(self.value) < 10 else places
        return f"{self.value:.{places}f} ± {self.error:.{places}f}"


def mean(values: Iterable[float]) -> Number:
    """The mean of one value per replicate; values that are nan were not observed."""
    seen = [value for value in values if not math.isnan(value)]
    if not seen:
        return Number(math.nan, math.nan, math.nan, math.nan, 0)
    centre = statistics.fmean(seen)
    error = statistics.stdev(seen) / math.sqrt(len(seen)) if len(seen) > 1 else 0.0
    return Number(centre, error, centre - Z * error, centre + Z * error, len(seen))


def share(outcomes: Iterable[bool]) -> Number:
    """The share of replicates in which something held, with Wilson's interval."""
    seen = list(outcomes)
    n = len(seen)
    if not n:
        return Number(math.nan, math.nan, math.nan, math.nan, 0, share=True)
    p = sum(seen) / n
    centre = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    error = math.sqrt(p * (1 - p) / n)
    return Number(p, error, max(0.0, centre - half), min(1.0, centre + half), n, share=True)


@dataclass(frozen=True)
class Row:
    """One case of a scenario."""

    scenario: str
    case: str
    numbers: Mapping[str, Number]

    @classmethod
    def read(cls, path: Path) -> list[Row]:
        """Rows that were written as JSON."""
        return [
            cls(
                row["scenario"],
                row["case"],
                {name: Number(**number) for name, number in row["numbers"].items()},
            )
            for row in json.loads(path.read_text())
        ]


def render(columns: Mapping[str, Sequence[Row]]) -> str:
    """Markdown: a table for each set of measures, and in it a line for each case and rules.

    Args:
        columns: rows by the name of the rules that they were played by.
    """
    shapes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in chain.from_iterable(columns.values()):
        lines = shapes.setdefault((row.scenario, tuple(row.numbers)), [])
        if row.case not in lines:
            lines.append(row.case)
    parts = []
    for (scenario, measures), cases in shapes.items():
        lines = [_line([scenario, "rules", *measures]), _line(["---"] * (len(measures) + 2))]
        for case in cases:
            for name, rows in columns.items():
                for row in rows:
                    if (row.scenario, row.case, tuple(row.numbers)) == (scenario, case, measures):
                        lines.append(_line([case, name, *map(str, row.numbers.values())]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

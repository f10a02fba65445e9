"""The table of single runs: medians, paired ratios, the best variant."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contenders.registry import CONTENDERS, OURS
from contenders.rows import ROWS, Row

BUSY = 0.15
"""Cores that others may use before a measurement counts as contended."""


@dataclass(frozen=True)
class Run:
    """One process of one contender, or why there was none."""

    row: str
    contender: str
    variant: str
    repeat: int
    result: Mapping[str, Any] = field(default_factory=dict)
    """What it printed; empty if it failed."""
    failure: str = ""

    def number(self, name: str) -> float | None:
        """A finite number of the result, if it is there."""
        value = self.result.get(name)
        return float(value) if value is not None else None

    def json(self) -> dict[str, Any]:
        """For a file of JSON lines."""
        return asdict(self)


def median(values: Iterable[float | None]) -> float | None:
    """Of those that are there."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def median_time(runs: Sequence[Run]) -> float:
    """Median seconds to the threshold; a run that never came there counts as endless."""
    times = [run.number("seconds_to_threshold") for run in runs if run.result]
    return statistics.median(math.inf if t is None else t for t in times) if times else math.inf


def paired_ratio(ours: Sequence[Run], theirs: Sequence[Run], name: str) -> float | None:
    """Median over the repetitions of ours / theirs: neighbours in time share their disturbance."""
    by_repeat = {run.repeat: run.number(name) for run in ours}
    ratios = []
    for run in theirs:
        mine, other = by_repeat.get(run.repeat), run.number(name)
        if mine is not None and other:
            ratios.append(mine / other)
    return median(ratios)


def fastest(runs: Sequence[Run]) -> str:
    """Among the variants that were run most often, the one with the most environment steps/s."""

    def key(variant: str) -> tuple[int, float]:
        rates = [rate for rate in _rates(r for r in runs if r.variant == variant) if rate]
        return len(rates), median(rates) or 0.0

    return max(dict.fromkeys(run.variant for run in runs), key=key)


def _rates(runs: Iterable[Run]) -> list[float | None]:
    return [run.number("env_steps_per_second") for run in runs]


def render(runs: Sequence[Run]) -> str:
    """Every row's table, in Markdown."""
    present = dict.fromkeys(run.row for run in runs)
    return "\n".join(_row_table(ROWS[name], [r for r in runs if r.row == name]) for name in present)


def _lines_of(row: Row, runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each line: of each contender's variants, or of its fastest one only."""
    lines = []
    for name in dict.fromkeys(run.contender for run in runs):
        own = [run for run in runs if run.contender == name]
        if row.cores > 1:
            best = fastest(own)
            lines.append([run for run in own if run.variant == best])
        else:
            variants = dict.fromkeys(run.variant for run in own)
            lines += [[run for run in own if run.variant == variant] for variant in variants]
    return lines


def _row_table(row: Row, runs: Sequence[Run]) -> str:
    lines = _lines_of(row, runs)
    ours = next((line for line in lines if line[0].contender == OURS), [])
    timed = row.threshold is not None
    head = ["", "version", "env steps/s", "updates/s", "hpcpod is", "per CPU s"]
    head += [f"s to {row.threshold:g}", "hpcpod takes"] if timed else []
    head += ["cores", "other cores", "remarks"]
    text = [f"### {row.name}: {describe(row)}", "", _markdown(head), _markdown(["---"] * len(head))]
    text += [_markdown(_cells(line, ours, timed)) for line in lines]
    return "\n".join([*text, ""])


def _cells(line: Sequence[Run], ours: Sequence[Run], timed: bool) -> list[str]:
    first = line[0]
    name = " ".join([first.contender, *filter(None, first.variant.split("+"))])
    good = [run for run in line if run.result]
    remarks = list(dict.fromkeys(run.failure for run in line if run.failure))
    if not good:
        return [name, *[""] * (9 if timed else 7), "; ".join(remarks)]
    ratio = paired_ratio(ours, good, "env_steps_per_second")
    cells = [name, str(good[0].result.get("version", "?")), amount(median(_rates(good)))]
    cells += [amount(median(run.number("updates_per_second") for run in good)), times(ratio)]
    cells.append(times(paired_ratio(ours, good, "env_steps_per_cpu_second")))
    if timed:
        cells += _time_cells(good, ours)
    other = median(run.number("other_cores") for run in good)
    remarks += dict.fromkeys(note for run in good for note in run.result.get("notes", ()))
    if other is not None and other > BUSY:
        remarks.append("contended")
    used = median(run.number("cores") for run in good)
    cores = ["?" if each is None else f"{each:.2f}" for each in (used, other)]
    return [*cells, *cores, "; ".join(remarks)]


def _time_cells(good: Sequence[Run], ours: Sequence[Run]) -> list[str]:
    seconds = median_time(good)
    if not math.isfinite(seconds):
        return ["never", ""]
    mine = median_time([run for run in ours if run.result])
    return [f"{seconds:.1f}", times(mine / seconds if math.isfinite(mine) else None)]


def describe(row: Row) -> str:
    """A row's settings in words."""
    if row.epochs:
        how = f"{row.num_envs:,} x {row.horizon}, minibatch {row.batch:,}, {row.epochs} epochs"
    else:
        updates = "1 update" if row.updates == 1 else f"{row.updates} updates"
        how = f"batch {row.batch}, {updates} after {row.rollout} steps"
    cores = "one thread" if row.cores == 1 else f"{row.cores} cores, each at its best"
    return f"{row.env}, {how}, 2 x {row.hidden} {row.activation}, {cores}"


def amount(value: float | None) -> str:
    """Three figures or so, with thousands."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def times(ratio: float | None) -> str:
    """A ratio, as in 2.10x."""
    return "" if ratio is None else f"{ratio:.2f}x"


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def names() -> list[str]:
    """Of all contenders."""
    return list(CONTENDERS)

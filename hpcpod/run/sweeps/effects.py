"""The effects of a sweep's factors on the score: least squares with sums-to-zero contrasts.

The effect of a level is its mean over the levels of all other factors, less the mean of all levels.
An interaction is what a pair of levels has beyond their two effects. Intervals are Student's, by
the spread that the model leaves; they hold for scores of equal spread that are about normal
(Montgomery, Design and Analysis of Experiments, chapters 5 and 10).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcpod._student_t import t_quantile
from hpcpod.config.space import Choice, LogUniform
from hpcpod.run.sweeps.design import Cell, Factor, label
from hpcpod.run.sweeps.outcome import Outcome
from hpcpod.run.text import many

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVEL = 0.95
"""Probability with which each interval holds the truth."""


_NONE = object()
"""The level of a factor that is of no use."""


@dataclass(frozen=True)
class Effect:
    """The effect of a level, or the interaction of two."""

    factors: tuple[str, ...]
    """One path, or two."""
    levels: tuple[str, ...]
    value: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """True if its interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Analysis:
    """The effects in one environment."""

    env: str
    """Its id, if environments are compared; else empty."""
    runs: int
    """Runs with a score that count."""
    mean: float
    """The mean of all levels' means."""
    spread: float
    """Standard deviation of what the model leaves; NaN without a degree of freedom."""
    freedom: int
    """Degrees of freedom of the intervals."""
    effects: tuple[Effect, ...]
    remarks: tuple[str, ...]
    """Limits of what can be said, a sentence each."""

    @property
    def expected(self) -> float:
        """Intervals that would leave zero out, on average, if nothing had an effect."""
        return (1 - LEVEL) * len(self.effects)


def analyse(
    factors: Sequence[Factor], rows: Sequence[tuple[Cell, Outcome]]
) -> tuple[Analysis, ...]:
    """The effects of all factors, in each environment apart: returns of two are of no common scale.

    Runs that have finished count, by the score of the policy that they deliver.
    """
    ended = [row for row in rows if row[1].fate == "finished" and row[1].score is not None]
    planned = Counter(_env(cell) for cell, _ in rows)
    if len(planned) < 2:
        return (_analysis("", factors, ended, len(rows)),)
    others = [factor for factor in factors if factor.path != "env.id"]
    return tuple(
        _analysis(env, others, [row for row in ended if _env(row[0]) == env], count)
        for env, count in planned.items()
    )


def _env(cell: Cell) -> str:
    """The environment's id among the levels of a cell; empty if all cells have the same."""
    section = cell.levels.get("env")
    within = section.get("id", "") if isinstance(section, Mapping) else ""
    return label(cell.levels.get("env.id", within))


@dataclass(frozen=True)
class _Coded:
    """A factor's columns, and the codes of the points at which its effect is told."""

    path: str
    columns: Array
    """[runs, codes]"""
    points: Mapping[str, tuple[float, ...]]


def _analysis(
    env: str, factors: Sequence[Factor], rows: Sequence[tuple[Cell, Outcome]], planned: int
) -> Analysis:
    import numpy as np

    remarks = []
    if len(rows) < planned:
        remarks.append(
            f"{len(rows)} of {many(planned, 'run')} have finished with a score: the others don't"
            " count."
        )
    scores = np.array([outcome.score for _, outcome in rows], dtype=float)
    coded = [each for factor in factors if (each := _coded(factor, rows, remarks)) is not None]
    if not coded or not len(rows):
        mean = float(scores.mean()) if len(rows) else math.nan
        return Analysis(env, len(rows), mean, math.nan, 0, (), tuple(remarks))
    pairs = list(itertools.combinations(coded, 2))
    terms: list[tuple[_Coded, ...]] = [*((each,) for each in coded), *pairs]
    fitted = _fit(terms, scores)
    if fitted is None and pairs:
        remarks.append(
            "Interactions can't be told from chance here, for want of runs: the intervals take them"
            " for chance."
        )
        terms = terms[: len(coded)]
        fitted = _fit(terms, scores)
    if fitted is None:
        remarks.append("There are too few runs for intervals: give the sweep seeds.")
        return Analysis(env, len(rows), float(scores.mean()), math.nan, 0, (), tuple(remarks))
    weights, covariance, freedom = fitted
    if len({cell.number for cell, _ in rows}) == len(rows):
        remarks.append(
            "Each cell has one run: what chance does is taken from higher interactions, which make"
            " the intervals too wide where they are real. Seeds would tell."
        )
    effects, at = [], 1
    for term in terms:
        width = math.prod(each.columns.shape[1] for each in term)
        part = slice(at, at + width)
        effects += _effects(term, weights[part], covariance[part, part], freedom)
        at += width
    spread = math.sqrt(_residual(terms, scores, weights) / freedom)
    return Analysis(env, len(rows), float(weights[0]), spread, freedom, tuple(effects),
                    tuple(remarks))  # fmt: skip


def _coded(
    factor: Factor, rows: Sequence[tuple[Cell, Outcome]], remarks: list[str]
) -> _Coded | None:
    """A factor's columns: sums to zero; of a range -1 at its low end and 1 at its high end. A run
    in which the factor is of no use has zeros."""
    import numpy as np

    codes: dict[str, tuple[float, ...]]
    points: dict[str, tuple[float, ...]]
    given: list[Any] = [cell.levels.get(factor.path, _NONE) for cell, _ in rows]
    if factor.range is not None:
        codes = {label(v): (_place(factor, v),) for v in given if v is not _NONE}
        high = f"{label(factor.range.high)}, against the middle"  # type: ignore[union-attr]
        points = {high: (1.0,)}
        width = 1
    else:
        seen = {label(value) for value in given if value is not _NONE}
        names = [name for name in map(label, factor.levels) if name in seen]
        names += sorted(seen - set(names))  # a baseline's own value
        if len(names) < 2:
            remarks.append(f"{factor.path} has one level among the runs that count: no effect.")
            return None
        width = len(names) - 1
        codes = {
            name: tuple(float(i == k) for k in range(width)) if i < width else (-1.0,) * width
            for i, name in enumerate(names)
        }
        points = codes
    nothing = (0.0,) * width
    table = [nothing if value is _NONE else codes[label(value)] for value in given]
    return _Coded(factor.path, np.array(table, dtype=float).reshape(-1, width), points)


def _place(factor: Factor, value: float) -> float:
    """A value's place in a range, from -1 to 1."""
    found = factor.range
    assert found is not None and not isinstance(found, Choice)
    low, high = float(found.low), float(found.high)
    if isinstance(found, LogUniform):
        low, high, value = math.log(low), math.log(high), math.log(value)
    return 2 * (value - low) / (high - low) - 1


def _design(terms: Sequence[tuple[_Coded, ...]], runs: int) -> Array:
    import numpy as np

    columns = [np.ones((runs, 1))]
    for term in terms:
        block = term[0].columns
        for other in term[1:]:
            block = (block[:, :, None] * other.columns[:, None, :]).reshape(runs, -1)
        columns.append(block)
    return np.hstack(columns)


def _fit(terms: Sequence[tuple[_Coded, ...]], scores: Array) -> tuple[Array, Array, int] | None:
    """Weights, their covariance and its degrees of freedom; None if the runs are too few."""
    import numpy as np

    design = _design(terms, len(scores))
    freedom = len(scores) - design.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    weights: Array = np.linalg.lstsq(design, scores, rcond=None)[0].astype(np.float64)
    rest = scores - design @ weights
    covariance: Array = np.linalg.inv(design.T @ design) * (rest @ rest) / freedom
    return weights, covariance, freedom


def _residual(terms: Sequence[tuple[_Coded, ...]], scores: Array, weights: Array) -> float:
    rest = scores - _design(terms, len(scores)) @ weights
    return float(rest @ rest)


def _effects(
    term: tuple[_Coded, ...], weights: Array, covariance: Array, freedom: int
) -> list[Effect]:
    """The effect at each point of a factor, or each pair of points of two."""
    import numpy as np

    found, t = [], t_quantile((1 + LEVEL) / 2, freedom)
    for points in itertools.product(*(each.points.items() for each in term)):
        code = np.ones(1)
        for _, each in points:
            code = np.outer(code, np.array(each)).ravel()
        value = float(code @ weights)
        half = t * math.sqrt(max(0.0, float(code @ covariance @ code)))
        names = tuple(name for name, _ in points)
        paths = tuple(each.path for each in term)
        found.append(Effect(paths, names, value, value - half, value + half))
    return found

"""The effects of a sweep's factors on the score: least squares with sums-to-zero contrasts.

The effect of a level is its mean over the levels of all other factors, less the mean of all levels.
An interaction is what a pair of levels has beyond their two effects. Intervals are Student's; they
hold for scores of equal spread that are about normal. That spread is the pure error, of runs of
equal levels, where every combination of levels has two runs; else what the model leaves
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
from hpcpod.run.text import listed, many

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
    """Standard deviation of a run by chance; NaN without a degree of freedom."""
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
    pairs = _pairs(coded, remarks)
    terms: list[tuple[_Coded, ...]] = [*((each,) for each in coded), *pairs]
    pure = _repeated(coded)
    fitted = _fit(terms, scores, pure=pure)
    if fitted is None and pairs:
        remarks.append(
            "Interactions can't be told from chance here, for want of runs: the intervals take them"
            " for chance."
        )
        terms = terms[: len(coded)]
        fitted = _fit(terms, scores, pure=pure)
    if fitted is None:
        remarks.append("There are too few runs for intervals: give the sweep seeds.")
        return Analysis(env, len(rows), float(scores.mean()), math.nan, 0, (), tuple(remarks))
    if not pure and len({cell.number for cell, _ in rows}) == len(rows):
        remarks.append(
            "Each cell has one run: what chance does is taken from higher interactions, which make"
            " the intervals too wide where they are real. Seeds would tell."
        )
    elif fitted.lacking:
        remarks.append(
            "The intervals take for chance, beside the spread of seeds, what the effects and the"
            " interactions above leave: not every combination of levels has two runs."
        )
    effects, at = [], 1
    for term in terms:
        width = math.prod(each.columns.shape[1] for each in term)
        part = slice(at, at + width)
        effects += _effects(
            term, fitted.weights[part], fitted.covariance[part, part], fitted.freedom
        )
        at += width
    mean = float(fitted.weights[0])
    return Analysis(env, len(rows), mean, fitted.spread, fitted.freedom, tuple(effects),
                    tuple(remarks))  # fmt: skip


def _pairs(coded: Sequence[_Coded], remarks: list[str]) -> list[tuple[_Coded, ...]]:
    """The pairs of factors whose interaction the runs tell from the two effects."""
    import numpy as np

    told: list[tuple[_Coded, ...]] = []
    apart = []
    for pair in itertools.combinations(coded, 2):
        design = _design([*((each,) for each in pair), pair], len(pair[0].columns))
        if np.linalg.matrix_rank(design) == design.shape[1]:
            told.append(pair)
        else:
            apart.append(" with ".join(each.path for each in pair))
    if told and apart:
        remarks.append(
            f"The interaction of {listed(apart)} can't be told: not all of their levels come"
            " together."
        )
    elif apart:
        remarks.append("No interaction can be told: not all levels of two fields come together.")
    return told


def _repeated(coded: Sequence[_Coded]) -> bool:
    """True if every combination of levels has two runs or more, and no run lies between."""
    import numpy as np

    found = Counter(map(tuple, np.hstack([each.columns for each in coded]).tolist()))
    if len(found) != math.prod(len(each.points) for each in coded) or min(found.values()) < 2:
        return False  # of many fields the combinations are too many to be made
    combos = itertools.product(*(each.points.values() for each in coded))
    return found.keys() == {tuple(itertools.chain(*combo)) for combo in combos}


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


_DUST = 1e-12
"""Share of the largest score: less than that is what arithmetic leaves of a zero."""


@dataclass(frozen=True)
class _Fit:
    """A model of the scores."""

    weights: Array
    covariance: Array
    """Of the weights."""
    freedom: int
    """Degrees of freedom of ``spread``."""
    spread: float
    """Standard deviation of a run by chance."""
    lacking: bool
    """True if ``spread`` also has what the model lacks."""


def _fit(terms: Sequence[tuple[_Coded, ...]], scores: Array, *, pure: bool) -> _Fit | None:
    """Least squares; None if the runs are too few.

    Args:
        terms: of the model, beside the mean.
        scores: [runs]
        pure: fit the means of equal runs, each with the same weight, and take chance from the
            spread of these runs alone. Of all combinations of levels, effects are then means over
            the levels of all other factors, whatever interactions the model lacks.
    """
    import numpy as np

    design = _design(terms, len(scores))
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    places, at, counts = np.unique(design, axis=0, return_inverse=True, return_counts=True)
    at = at.ravel()  # NumPy 2.0 alone gives it a second axis
    averages = (at == np.arange(len(places))[:, None]) / counts[:, None]  # [places, runs]
    solution = np.linalg.pinv(places) @ averages if pure else np.linalg.pinv(design)
    weights = solution @ scores
    weights[np.abs(weights) < _DUST * np.abs(scores).max()] = 0.0
    fitted = (averages @ scores)[at] if pure else design @ weights
    freedom = len(scores) - (len(places) if pure else len(weights))
    if freedom < 1:
        return None
    variance = float(np.sum((scores - fitted) ** 2)) / freedom
    lacking = not pure and len(places) > len(weights)
    covariance = variance * solution @ solution.T
    return _Fit(weights, covariance, freedom, math.sqrt(variance), lacking)


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

"""The design of a sweep: its factors, and the combinations of their levels. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcpod.config.decoder import INVALID, value_at
from hpcpod.config.loader import keys_of
from hpcpod.config.scalars import show
from hpcpod.config.space import RANGES, Choice, Int, LogUniform, Range, Value, extremes
from hpcpod.config.sweep import SweepConfig
from hpcpod.config.yaml_file import dump_line

SHARED = ("name", "seed", "sweep", "on_finish", "cluster", "resources")
"""Fields that all runs of a sweep share, or that the sweep gives each of them itself."""

Levels = Mapping[str, object]
"""A combination: the level of each factor, by its path."""


@dataclass(frozen=True)
class Factor:
    """A field that differs between the cells of a sweep."""

    path: str
    levels: tuple[Any, ...] = ()
    """Its values, as plain data; empty if it has a range."""
    range: Range | None = None
    """Its range, in a random design."""

    @property
    def keys(self) -> list[str]:
        """The steps of its path."""
        return keys_of(self.path) or []


@dataclass(frozen=True)
class Cell:
    """A cell with one of its seeds: one run of a sweep."""

    name: str
    """Its folder in ``cells/``."""
    number: int
    """The cell's, from 1: its combination of levels."""
    replicate: int
    """The seed's number, from 1."""
    levels: Levels
    """The level of each factor that is of use, by its path: one of an agent that is not trained has
    none."""


def run_name(sweep: str, cell: Cell) -> str:
    """The name of a cell's run."""
    return f"{sweep}-{cell.name}"


def label(level: Any) -> str:
    """A level in one line, as a table has it."""
    if isinstance(level, str):
        return level
    return dump_line(level) if isinstance(level, (dict, list)) else show(level)


def factors_of(sweep: SweepConfig) -> tuple[list[Factor], list[str]]:
    """The factors of a sweep, and all that is wrong with them, a sentence each. A factor with a
    wrong list or range is among them as far as its cells can be checked, too."""
    factors: list[Factor] = []
    problems: list[str] = []
    for path, given in sweep.over.items():
        where = f"sweep.over.{path}"
        keys = keys_of(path)
        if keys is None:
            problems.append(f"{where}: expected a field's path, such as agents.ppo.gamma")
        elif keys[0] in SHARED:
            problems.append(f"{where}: {keys[0]} can't differ between the cells of a sweep")
        elif any(_within(keys, other.keys) for other in factors):
            problems.append(f"{where}: another factor has this field, or one in it, already")
        else:
            factor = _factor(path, given, sweep.design, problems)
            factors += [factor] if factor is not None else []
    return factors, problems


def _within(keys: Sequence[str], others: Sequence[str]) -> bool:
    """True if one of two paths begins with the other."""
    most = min(len(keys), len(others))
    return list(keys[:most]) == list(others[:most])


def _factor(path: str, given: object, design: str, problems: list[str]) -> Factor | None:
    where = f"sweep.over.{path}"
    if isinstance(given, dict) and len(given) == 1 and next(iter(given)) in RANGES:
        found = value_at(where, Value, given, problems)
        if found is INVALID:
            return None
        if isinstance(found, Choice):
            return Factor(path, found.values)
        if design == "random":
            return Factor(path, range=found)
        problems.append(f"{where}: a range is for design random; name its levels in a list")
        return Factor(path, extremes(found))
    if not isinstance(given, list):
        problems.append(f"{where}: expected a list of levels, or a range, got {show(given)}")
    elif len({label(level) for level in given}) < max(2, len(given)):
        said = "at least two levels, all different" if given else "a list of levels"
        problems.append(f"{where}: expected {said}, got {dump_line(given)}")
        return Factor(path, tuple(given[:1])) if given else None
    else:
        return Factor(path, tuple(given))
    return None


def combinations(sweep: SweepConfig, factors: Sequence[Factor], base: Levels) -> int:
    """The number of combinations, of which none is made; ``base`` as in ``combine``."""
    if sweep.design == "random":
        return sweep.cells or 0
    if sweep.design == "factorial":
        return math.prod(len(factor.levels) for factor in factors)
    return 1 + sum(len(_others(factor, _baseline(factor, base))) for factor in factors)


def _baseline(factor: Factor, base: Levels) -> object:
    return base.get(factor.path, factor.levels[0])


def _others(factor: Factor, baseline: object) -> list[object]:
    """The levels that differ from the baseline's."""
    return [level for level in factor.levels if label(level) != label(baseline)]


def combine(
    sweep: SweepConfig, factors: Sequence[Factor], base: Levels, seed: int
) -> Iterator[Levels]:
    """The combinations of a design.

    Args:
        sweep: the design.
        factors: of the sweep.
        base: of ``one_at_a_time``, what the file itself has, as far as it has something.
        seed: of a random design.
    """
    if sweep.design == "factorial":
        for levels in itertools.product(*(factor.levels for factor in factors)):
            yield {factor.path: level for factor, level in zip(factors, levels, strict=True)}
    elif sweep.design == "one_at_a_time":
        baseline = {factor.path: _baseline(factor, base) for factor in factors}
        yield baseline
        for factor in factors:
            for level in _others(factor, baseline[factor.path]):
                yield {**baseline, factor.path: level}
    else:
        dice, count = random.Random(seed), sweep.cells or 0
        columns = [_column(factor, count, dice) for factor in factors]
        for row in zip(*columns, strict=True):
            yield {factor.path: level for factor, level in zip(factors, row, strict=True)}


def _column(factor: Factor, count: int, dice: random.Random) -> list[Any]:
    """A factor's levels in a random design: a Latin hypercube's column (McKay et al. 1979)."""
    if factor.range is None:
        times, rest = divmod(count, len(factor.levels))
        column = [*factor.levels * times, *dice.sample(factor.levels, rest)]
    else:
        column = [_inside(factor.range, (i + dice.random()) / count) for i in range(count)]
    dice.shuffle(column)
    return column


def _inside(found: Range, share: float) -> float:
    """The value below which this share of a range lies."""
    assert not isinstance(found, Choice)
    if isinstance(found, Int):
        return min(found.high, found.low + math.floor(share * (found.high - found.low + 1)))
    if isinstance(found, LogUniform):
        low, high = math.log(found.low), math.log(found.high)
        drawn = math.exp(low + share * (high - low))
    else:
        drawn = found.low + share * (found.high - found.low)
    return min(max(float(f"{drawn:.6g}"), found.low), found.high)  # short, for tables

"""Mutation: draw hyperparameters from their ranges, and move them inside.

A mutation always changes something where anything can change: at the end of its range a
value turns back instead of standing still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hpcpod.config.space import (
    AlgorithmSpace,
    Choice,
    Int,
    LogUniform,
    Range,
    Scalar,
    Uniform,
    Value,
)
from hpcpod.records.records import Hyperparameters

RESAMPLE = 0.1
"""Share of mutations that draw a new value from the whole range instead of moving the old one."""
FACTOR = (1.1, 1.5)  # as DexPBT's
"""Limits of the factor by which an integer moves, and 1 - gamma where gamma may be 1."""
LOG_WIDTH = (0.05, 0.15)  # by FACTOR a range of four decades was crossed in fifty births
"""Limits of the move, as a share of the range's logarithm, where that is what counts."""
WIDTH = (0.10, 0.25)
"""Limits of the move, as a share of the range, where the value itself counts."""


def sample(space: AlgorithmSpace, rng: Random) -> dict[str, Scalar]:
    """Hyperparameters of a founder: one draw from each range, in the order of names."""
    drawn = {name: _draw(space.values[name], rng) for name in sorted(space.values)}
    return {name: drawn[name] for name in space.values}


def mutate(
    space: AlgorithmSpace, hyperparameters: Hyperparameters, rng: Random
) -> tuple[dict[str, Scalar], tuple[str, ...]]:
    """A child's hyperparameters, and the names of those that differ from its parent's.

    Some of the ranged hyperparameters move, see ``moved_at_once``, drawn with equal chances. Never
    among them: structural ones, which are the family's, and initial ones, which count for founders
    alone.
    """
    child = dict(hyperparameters)
    names = sorted(space.mutable)
    for name in sorted(rng.sample(names, min(len(names), moved_at_once(len(names))))):
        allowed = space.values[name]
        assert isinstance(allowed, Range)
        child[name] = _move(allowed, child[name], name in space.near_one, rng)
    changed = (name for name in sorted(child) if not _same(child[name], hyperparameters[name]))
    return child, tuple(changed)


def moved_at_once(ranges: int) -> int:
    """The number of hyperparameters that a mutation moves, of so many that it may: half."""
    return math.ceil(ranges / 2)


def _draw(value: Value, rng: Random) -> Scalar:
    match value:
        case LogUniform(low, high):
            return _clip(math.exp(rng.uniform(math.log(low), math.log(high))), low, high)
        case Uniform(low, high):
            return _clip(rng.uniform(low, high), low, high)
        case Int(low, high):
            return rng.randint(low, high)
        case Choice(values):
            return rng.choice(values)
        case _:
            return value


def _move(allowed: Range, old: Scalar, near_one: bool, rng: Random) -> Scalar:
    if rng.random() < RESAMPLE:
        new = _draw(allowed, rng)
        if not _same(new, old):
            return new
    up = rng.random() < 0.5
    if isinstance(allowed, Choice):
        return _neighbour(allowed.values, old, up)
    assert isinstance(old, (int, float))
    step = _step(allowed, old, near_one, rng)
    new = _clip(step(up), allowed.low, allowed.high)
    return new if new != old else _clip(step(not up), allowed.low, allowed.high)


def _step(allowed: Range, old: float, near_one: bool, rng: Random) -> Callable[[bool], float]:
    """Where a number goes if it goes up, and if it goes down."""
    if isinstance(allowed, Int):
        size = max(1, round(abs(old) * (rng.uniform(*FACTOR) - 1)))
        return lambda up: old + size if up else old - size
    if near_one and old < 1:
        factor = rng.uniform(*FACTOR)
        if not isinstance(allowed, Choice) and allowed.high < 1:
            factor = _factor(1 - allowed.high, 1 - allowed.low, rng)
        return lambda up: 1 - (1 - old) / factor if up else 1 - (1 - old) * factor
    if isinstance(allowed, LogUniform):
        factor = _factor(allowed.low, allowed.high, rng)
        return lambda up: old * factor if up else old / factor
    assert isinstance(allowed, Uniform)
    distance = (allowed.high - allowed.low) * rng.uniform(*WIDTH)
    return lambda up: old + distance if up else old - distance


def _factor(low: float, high: float, rng: Random) -> float:
    """The factor that moves a value by a share of a range of logarithms."""
    return math.exp((math.log(high) - math.log(low)) * rng.uniform(*LOG_WIDTH))


def _neighbour(values: tuple[Scalar, ...], old: Scalar, up: bool) -> Scalar:
    place = next(i for i, value in enumerate(values) if _same(value, old))
    beside = place + (1 if up else -1)
    return values[beside if 0 <= beside < len(values) else 2 * place - beside]


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _same(one: Scalar | None, other: Scalar | None) -> bool:
    """Equal, and not as ``True == 1`` is."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)

"""Search spaces: a hyperparameter is a value or a range.

A range that can't be drawn from is refused when it is made, wherever it is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Scalar = bool | int | float | str


@dataclass(frozen=True)
class _Interval:
    low: float
    """Smallest value."""
    high: float
    """Largest value."""

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"both ends must be finite, got [{low}, {high}]")
        if low == high:
            raise ValueError(f"both ends are {low}: write the value alone, without a range")
        if low > high:
            raise ValueError(
                f"the range's ends are swapped: [{low}, {high}]; write [{high}, {low}]"
            )


@dataclass(frozen=True)
class LogUniform(_Interval):
    """``{log_uniform: [low, high]}``: the logarithm is uniform; 0 < low < high."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"a logarithm needs values above 0, got {[self.low, self.high]}")


@dataclass(frozen=True)
class Uniform(_Interval):
    """``{uniform: [low, high]}``; low < high."""


@dataclass(frozen=True)
class Int(_Interval):
    """``{int: [low, high]}``: whole numbers, both ends included; low < high."""

    low: int
    high: int


@dataclass(frozen=True)
class Choice:
    """``{choice: [a, b, ...]}``: at least two different values."""

    values: tuple[Scalar, ...]
    """The values to choose from; neighbours in the list are neighbours for a mutation."""

    def __post_init__(self) -> None:
        if any(isinstance(v, float) and not math.isfinite(v) for v in self.values):
            raise ValueError(f"every value must be finite, got {list(self.values)}")
        different = {(isinstance(value, bool), value) for value in self.values}
        if len(self.values) < 2 or len(different) < len(self.values):
            raise ValueError(
                f"expected at least two values, all different, got {list(self.values)}"
            )


Range = LogUniform | Uniform | Int | Choice
Value = Scalar | Range

RANGES: Mapping[str, type[Range]] = {
    "log_uniform": LogUniform,
    "uniform": Uniform,
    "int": Int,
    "choice": Choice,
}
"""The word for each range in a configuration: ``{log_uniform: [1.0e-4, 1.0e-2]}``."""


def extremes(value: Value) -> tuple[Scalar, ...]:
    """A single value, both ends of a range, or every choice."""
    if isinstance(value, Choice):
        return value.values
    return (value.low, value.high) if isinstance(value, Range) else (value,)


@dataclass(frozen=True)
class AlgorithmSpace:
    """An algorithm as the tournament sees it, free of torch: what it may be born with.

    It is resolved once, at launch, from the agent's own ``Config`` and the run's
    configuration, and kept in the run's ``config.json``.
    """

    agent: str
    """The name or the path for ``plugins.resolve("agents", ...)``."""
    values: Mapping[str, Value]
    """Every hyperparameter: the value or the range of the configuration, else the default."""
    defaults: Mapping[str, Scalar]
    """The agent's own defaults."""
    structural: tuple[str, ...] = ()
    """Hyperparameters that set the shape of a network: never mutated, part of the family."""
    near_one: tuple[str, ...] = ()
    """Hyperparameters such as gamma, whose distance from 1 is what counts."""
    initial: tuple[str, ...] = ()
    """Hyperparameters that count from scratch alone, such as the exploration of the first steps:
    founders draw them, and copies never mutate them, for that would change nothing."""

    @property
    def ranged(self) -> tuple[str, ...]:
        """Hyperparameters of which the configuration gives a range."""
        return tuple(name for name, value in self.values.items() if isinstance(value, Range))

    @property
    def mutable(self) -> tuple[str, ...]:
        """Those of them that a mutation moves."""
        fixed = {*self.structural, *self.initial}
        return tuple(name for name in self.ranged if name not in fixed)

    def unmutated(self) -> dict[str, Scalar]:
        """Hyperparameters of a control: the agent's default where the range allows, else its
        middle."""
        return {
            name: _default(value, self.defaults.get(name)) for name, value in self.values.items()
        }

    def misfit(self, hyperparameters: object) -> str:
        """The reason why no pod can have these, in words; empty if one can."""
        if not isinstance(hyperparameters, Mapping):
            return f"it gives a {type(hyperparameters).__name__}, not a mapping"
        if wrong := sorted(self.values.keys() ^ hyperparameters.keys()):
            return f"{wrong[0]} is {'missing' if wrong[0] in self.values else 'unknown'}"
        for name, allowed in self.values.items():
            if not _allows(allowed, hyperparameters[name]):
                value = hyperparameters[name]
                if isinstance(allowed, Range):
                    return f"{name} = {value!r} is not within {allowed!r}"
                return f"{name} = {value!r}, where every pod has {allowed!r}"
        return ""

    def family(self, algorithm: str, hyperparameters: Mapping[str, Scalar]) -> str:
        """Weights cross only between pods of equal family: algorithm and network shape."""
        shape = ",".join(f"{name}={hyperparameters[name]}" for name in self.structural)
        return f"{algorithm}({shape})"


def _allows(allowed: Value, value: object) -> bool:
    """True if a single value equals it, or a range holds it."""
    if isinstance(allowed, Range):
        if isinstance(allowed, Choice):
            return any(value == each and type(value) is type(each) for each in allowed.values)
        whole = isinstance(value, int) and not isinstance(value, bool)
        number = whole or (isinstance(value, float) and not isinstance(allowed, Int))
        return number and allowed.low <= value <= allowed.high  # type: ignore[operator]
    return value == allowed and isinstance(value, bool) == isinstance(allowed, bool)


def _default(value: Value, default: Scalar | None) -> Scalar:
    middle: float
    match value:
        case LogUniform(low, high):
            middle = min(max(math.sqrt(low) * math.sqrt(high), low), high)
        case Uniform(low, high):
            middle = low + (high - low) / 2
        case Int(low, high):
            middle = (low + high) // 2
        case Choice(values):
            known = [each for each in values if _allows(each, default)]
            return known[0] if known else values[len(values) // 2]
        case _:
            return value
    if isinstance(default, (bool, str)) or default is None or not low <= default <= high:
        return middle
    return middle if isinstance(value, Int) and not isinstance(default, int) else default

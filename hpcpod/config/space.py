"""Search spaces: a hyperparameter is a value or a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = bool | int | float | str


@dataclass(frozen=True)
class LogUniform:
    """``{log_uniform: [low, high]}``: the logarithm is uniform; 0 < low < high."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""


@dataclass(frozen=True)
class Uniform:
    """``{uniform: [low, high]}``; low < high."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""


@dataclass(frozen=True)
class Int:
    """``{int: [low, high]}``: whole numbers, both ends included; low < high."""

    low: int
    """Smallest value."""
    high: int
    """Largest value."""


@dataclass(frozen=True)
class Choice:
    """``{choice: [a, b, ...]}``: at least two different values."""

    values: tuple[Scalar, ...]
    """What may be chosen; neighbours in the list are neighbours for a mutation."""


Range = LogUniform | Uniform | Int | Choice
Value = Scalar | Range


@dataclass(frozen=True)
class AlgorithmSpace:
    """An algorithm as the tournament sees it, free of torch: what it may be born with.

    It is resolved once, at launch, from the agent's own ``Config`` and the run's
    configuration, and kept in the run's ``config.json``.
    """

    agent: str
    """What ``plugins.resolve("agents", ...)`` is asked for."""
    values: Mapping[str, Value]
    """Every hyperparameter: the value or the range of the configuration, else the default."""
    defaults: Mapping[str, Scalar]
    """The agent's own defaults."""
    structural: tuple[str, ...] = ()
    """Hyperparameters that set the shape of a network: never mutated, part of the family."""
    near_one: tuple[str, ...] = ()
    """Hyperparameters such as gamma, whose distance from 1 is what counts."""

    def family(self, algorithm: str, hyperparameters: Mapping[str, Scalar]) -> str:
        """Weights cross only between pods of equal family: algorithm and network shape."""
        shape = ",".join(f"{name}={hyperparameters[name]}" for name in self.structural)
        return f"{algorithm}({shape})"

"""Limits of hyperparameters, each refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

WIDEST = 8192
"""Units of a hidden layer: twice as many take eight times as long to be made orthogonal."""
DEEPEST = 64
"""Hidden layers."""
MOST_H_STEPS = 64
"""Steps of a Hamiltonian term: a product of more densities is beyond its limits anyway."""


def each(config: object, check: Callable[..., None], names: str, *limits: float) -> None:
    """Hold these fields of a configuration, named in one line, to one of the limits below."""
    for name in names.split():
        check(name, getattr(config, name), *limits)


def at_least(name: str, value: float, least: float) -> None:
    """Refuse less than ``least``, infinity and NaN (ValueError)."""
    if not (math.isfinite(value) and value >= least):
        raise ValueError(f"{name} must be at least {least}, got {value}")


def at_most(name: str, value: float, most: float) -> None:
    """Refuse more than ``most`` (ValueError)."""
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")


def h_term(weight: float, steps: int) -> None:
    """Refuse a Hamiltonian term of impossible weight or length (ValueError)."""
    at_least("h_term", weight, 0)
    at_least("h_steps", steps, 1)
    at_most("h_steps", steps, MOST_H_STEPS)


def shape(hidden: int, layers: int) -> None:
    """Refuse a network of no size, or of one that takes minutes to make (ValueError)."""
    for name, value, most in (("hidden", hidden, WIDEST), ("layers", layers, DEEPEST)):
        at_least(name, value, 1)
        at_most(name, value, most)


def positive(name: str, value: float) -> None:
    """Refuse 0, less, infinity and NaN (ValueError)."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value}")


def fraction(name: str, value: float) -> None:
    """Refuse what is outside of [0, 1] (ValueError)."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value}")


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among ``known`` (ValueError)."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value}")

"""Limits of hyperparameters, each refused in one sentence."""

from __future__ import annotations

import math


def at_least(name: str, value: float, least: float) -> None:
    """Refuse less than ``least``, infinity and NaN (ValueError)."""
    if not (math.isfinite(value) and value >= least):
        raise ValueError(f"{name} must be at least {least}, got {value}")


def positive(name: str, value: float) -> None:
    """Refuse 0, less, infinity and NaN (ValueError)."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value}")


def fraction(name: str, value: float) -> None:
    """Refuse what is outside of [0, 1] (ValueError)."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value}")

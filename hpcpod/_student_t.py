"""Student's t distribution; scipy would take longer to import than a test to run."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

_SERIES = 10_000
"""Degrees of freedom above which the sum, of as many terms, gives way to a series in 1/freedom: a
board that claims 10^30 episodes would sum for ever."""


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Student's t: the value that is exceeded with ``1 - probability``.

    Inverts the distribution by bisection in theta = atan(t / sqrt(freedom)), in which it is a
    finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    if freedom > _SERIES:  # Abramowitz and Stegun 26.7.5; the rest is below 1e-8 for |z| < 6
        z = NormalDist().inv_cdf(probability)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    inside = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # halvings: more than the 53 bits of a float
        middle = (low + high) / 2
        if _between(middle, freedom) < inside:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _between(theta: float, freedom: int) -> float:
    """P(\\|T\\| < t) of Student's t at t = sqrt(freedom) tan(theta)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2 / math.pi * (theta + sine * total) if odd else sine * total

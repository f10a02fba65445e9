"""What a sample of episode returns says: means, intervals, and tests on common seeds.

Every interval is Student's: exact for normal returns at any number of episodes, and the
usual approximation for others. A sample of equal returns has no spread to learn from, and its
interval is a point. That is right where the return is at its ceiling or can't vary; where a
rare episode ends otherwise, ``n`` equal returns can't show it: by the rule of three, up to 3 / n
of all episodes may be of that kind. More episodes are the remedy (``stop.confirm_episodes``),
not a wider interval: how far such an episode would fall, no sample without one can say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

GATE = 0.05
"""Level of the one-sided test that a paired difference exceeds 0."""

Returns = Sequence[float]


def mean(returns: Returns) -> float:
    """The sample mean."""
    return math.fsum(returns) / len(returns)


def sd(returns: Returns) -> float:
    """The sample's standard deviation (n - 1); 0 for a single return."""
    if len(returns) < 2:
        return 0.0
    centre = (mean(returns),) * len(returns)
    return math.dist(returns, centre) / math.sqrt(len(returns) - 1)


def interval(returns: Returns, confidence: float = 0.95) -> tuple[float, float]:
    """The two-sided confidence interval of the mean; at least two returns."""
    half = t_quantile((1 + confidence) / 2, len(returns) - 1) * _standard_error(returns)
    centre = mean(returns)
    return centre - half, centre + half


def lower_bound(returns: Returns, alpha: float) -> float:
    """The bound that the true mean is below with probability ``alpha``; at least two returns."""
    return mean(returns) - t_quantile(1 - alpha, len(returns) - 1) * _standard_error(returns)


def spent(alpha: float, attempt: int) -> float:
    """The level of the k-th attempt: ``alpha / (k (k + 1))``, which sums to ``alpha`` over all."""
    return alpha / (attempt * (attempt + 1))


@dataclass(frozen=True)
class Difference:
    """One pod's returns minus another's on common seeds."""

    mean: float
    low: float
    """What the true mean is below with probability ``GATE``, at most."""
    episodes: int


def difference(challenger: Returns, incumbent: Returns) -> Difference | None:
    """The paired difference; None when the two did not play the same number of episodes.

    On common seeds the variance of D = A - B is Var A + Var B - 2 Cov(A, B): what makes an
    episode easy for both cancels.
    """
    episodes = len(challenger)
    if episodes != len(incumbent) or episodes < 2:
        return None
    centre = (math.fsum(challenger) - math.fsum(incumbent)) / episodes
    squares = math.dist(challenger, incumbent) ** 2 - episodes * centre**2
    spread = math.sqrt(max(0.0, squares) / (episodes - 1))
    margin = t_quantile(1 - GATE, episodes - 1) * spread / math.sqrt(episodes)
    return Difference(centre, centre - margin, episodes)


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Student's t: the value that is exceeded with ``1 - probability``.

    Inverts the distribution by bisection in theta = atan(t / sqrt(freedom)), in which it is a
    finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    inside = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    for _ in range(60):
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


def _standard_error(returns: Returns) -> float:
    return sd(returns) / math.sqrt(len(returns))

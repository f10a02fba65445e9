"""Selection of the best of several means: optimal computing budget allocation (Chen et al. 2000),
with common seeds (Fu et al. 2007).

To find the best, samples are best spent in the ratios

    N_i / N_j = (s_i / d_i)^2 / (s_j / d_j)^2,    N_b = sd_b sqrt(sum over i of (N_i / sd_i)^2)

with s_i the standard deviation of a sample of i less one of the best, b, sd_i that of a sample of
i, and d_i how far i is behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hpcpod.tournament.statistics import GATE, Returns, difference, mean, sd

TINY = 1e-12
"""Variances below this count as this: nothing is divided by 0."""


def shares(
    means: Sequence[float], own: Sequence[float], differences: Sequence[float]
) -> list[float]:
    """The share of the samples that each should have; they sum to 1.

    Args:
        means: best first; at least two.
        own: variance of a sample of each.
        differences: variance of the difference between a sample of each and one of the best.
    """
    spreads = [max(each, TINY) for each in differences]
    # a gap of 0 would take the whole budget
    gaps = [max(means[0] - m, 0.1 * math.sqrt(d)) for m, d in zip(means, spreads, strict=True)]
    found = [d / max(gap, TINY) ** 2 for d, gap in zip(spreads, gaps, strict=True)]
    rest = sum(n**2 / max(var, TINY) for n, var in zip(found[1:], own[1:], strict=True))
    found[0] = math.sqrt(max(own[0], TINY) * rest)
    whole = sum(found)
    return [each / whole for each in found]


def best_first(returns: Mapping[str, Returns]) -> list[str]:
    """The names, by their mean returns."""
    return sorted(returns, key=lambda name: (-mean(returns[name]), name))


def clear(returns: Mapping[str, Returns]) -> bool:
    """True if no further episode is asked for: the best is shown better than each other, on the
    seeds that both have played, or they have played alike.

    It is looked at again and again, so it ends a choice and proves nothing.
    """
    best, *others = best_first(returns)
    for other in others:
        episodes = min(len(returns[best]), len(returns[other]))
        first, second = returns[best][:episodes], returns[other][:episodes]
        found = difference(first, second, paired=True, level=GATE / len(others))
        if found is None or found.low < 0:
            return False
    return True


def next_batches(returns: Mapping[str, Returns], batch: int, most: int) -> list[str]:
    """Names of those that are to play one more batch of episodes each, the most wanted first.

    Args:
        returns: of each so far, all on the same seeds in the same order.
        batch: episodes of a batch.
        most: batches that may still be played.
    """
    if most < 1 or len(returns) < 2 or clear(returns):
        return []
    names = best_first(returns)
    played = {name: len(returns[name]) for name in names}
    wanted = shares(
        [mean(returns[name]) for name in names],
        [sd(returns[name]) ** 2 for name in names],
        [_spread(returns[names[0]], returns[name]) for name in names],
    )
    whole = sum(played.values()) + batch * min(most, len(names))
    lacks = {name: share * whole - played[name] for name, share in zip(names, wanted, strict=True)}
    # as many as there are, or all: the shares of the next look are better ones
    return sorted((n for n in names if lacks[n] > 0), key=lambda name: -lacks[name])[:most]


def _spread(first: Returns, second: Returns) -> float:
    """The variance of the difference of two on the seeds that both have played."""
    return sd([a - b for a, b in zip(first, second, strict=False)]) ** 2

"""Configurations over their seeds: is the one that ``replicates`` believes best worth its estimate?

24 configurations, of which three have six trainings, three four, six two and the others one, by
their scores so far, as the allocator gives them. A training's luck has a deviation of 10, or, where
some are steady and others are not, of 10 at the median and 2.7 times as much or as little at one
standard deviation from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from hpcpod.tournament.allocators.replicates import over_seeds
from hpcpod.tournament.statistics import mean
from selection_scenarios import measures
from selection_scenarios.measures import Number, Row, share
from selection_scenarios.world import Settings

CONFIGURATIONS = 24
LUCK = 10.0
SPREADS = (0.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Standard deviations of what the configurations are worth; 0: all are equal."""
AGAIN = ((12, 2), (6, 4), (3, 6))
"""The best so many are trained until they have so many seeds."""


def rows(settings: Settings) -> Iterator[Row]:
    for uneven in (0.0, 1.0):
        kind = ", luck as well" if uneven else ""
        for spread in SPREADS:
            case = f"truths deviate by {spread:g}{kind}"
            yield Row("best configuration", case, best(spread, settings, uneven))


def best(spread: float, settings: Settings, uneven: float = 0.0) -> dict[str, Number]:
    """The excess of the best one's estimate, and of the plain mean of its scores, over its truth.

    Args:
        spread: standard deviation of what the configurations are worth.
        settings: the number of replicates and the seed.
        uneven: standard deviation of the logarithm of a configuration's luck.
    """
    estimates, means, covered, left = [], [], [], []
    for replicate in range(settings.replicates):
        rng = Random(f"{settings.seed} {replicate}")
        truth = [rng.gauss(0, spread) for _ in range(CONFIGURATIONS)]
        luck = [LUCK * math.exp(rng.gauss(0, uneven)) for _ in truth]
        scores = _trained(truth, luck, rng)
        found = over_seeds(scores)
        first = max(range(CONFIGURATIONS), key=lambda i: found[i][0])
        estimate, error = found[first]
        assert error is not None
        estimates.append(estimate - truth[first])
        means.append(mean(scores[first]) - truth[first])
        left.append(max(truth) - truth[first])
        covered.append(abs(estimates[-1]) < measures.Z * error)
    return {
        "estimate less truth": measures.mean(estimates),
        "mean less truth": measures.mean(means),
        "truth within 1.96 errors": share(covered),
        "best truth less its own": measures.mean(left),
    }


def _trained(truth: list[float], luck: list[float], rng: Random) -> list[list[float]]:
    """The scores of each configuration's trainings."""
    scores = [[rng.gauss(*each)] for each in zip(truth, luck, strict=True)]
    for places, seeds in AGAIN:
        ranked = sorted(range(len(truth)), key=lambda i: -mean(scores[i]))
        for i in ranked[:places]:
            scores[i] += [rng.gauss(truth[i], luck[i]) for _ in range(seeds - len(scores[i]))]
    return scores

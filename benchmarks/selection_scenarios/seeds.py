"""Configurations over their seeds: is the one that ``replicates`` believes best worth its estimate?

24 configurations, of which three have six trainings, three four, six two and the others one, by
their scores so far, as the allocator gives them. A training's luck has a deviation of 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hpcpod.tournament.allocators.replicates import over_seeds
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
    for spread in SPREADS:
        yield Row("best configuration", f"truths deviate by {spread:g}", best(spread, settings))


def best(spread: float, settings: Settings) -> dict[str, Number]:
    """What the best one's estimate, and the plain mean of its scores, are above its truth."""
    estimates, means, covered = [], [], []
    for replicate in range(settings.replicates):
        rng = Random(f"{settings.seed} {replicate}")
        truth = [rng.gauss(0, spread) for _ in range(CONFIGURATIONS)]
        scores = _trained(truth, rng)
        found = over_seeds(scores)
        first = max(range(CONFIGURATIONS), key=lambda i: found[i][0])
        estimate, error = found[first]
        assert error is not None
        estimates.append(estimate - truth[first])
        means.append(_mean(scores[first]) - truth[first])
        covered.append(abs(estimates[-1]) < measures.Z * error)
    return {
        "estimate less truth": measures.mean(estimates),
        "mean less truth": measures.mean(means),
        "truth within 1.96 errors": share(covered),
    }


def _trained(truth: list[float], rng: Random) -> list[list[float]]:
    """The scores of each configuration's trainings."""
    scores = [[rng.gauss(each, LUCK)] for each in truth]
    for places, seeds in AGAIN:
        ranked = sorted(range(len(truth)), key=lambda i: -_mean(scores[i]))
        for i in ranked[:places]:
            scores[i] += [rng.gauss(truth[i], LUCK) for _ in range(seeds - len(scores[i]))]
    return scores


def _mean(scores: list[float]) -> float:
    return sum(scores) / len(scores)

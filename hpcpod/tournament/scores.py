"""Scores of pods: shrunk means, the probability of being the best, IQM, improvement, trends.

``statistics`` has the tests by which a single pod is judged. Here all pods are looked at together,
with the covariance that common seeds give them: a hard seed is hard for most policies, and of a
difference between two pods it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcpod.tournament.statistics import standard_error

Array = NDArray[np.float64]

DRAWS = 8192
"""Draws for a probability of being the best: its standard error is 0.006 at most."""
SPREADS = 40
"""Points at which the spread of true means is integrated over."""
LEVEL = 1e-12
"""A relative difference below which two draws are level."""
SMALLEST = 1e-140
"""A spread below this is none: its square is 0."""
WIDEST = 4.0
"""The largest of them, in standard deviations of the means that were seen."""


@dataclass(frozen=True)
class Sample:
    """The returns of one pod's panel."""

    returns: tuple[float, ...]
    """In the order of the panel's seeds; at least two."""
    seeds: Hashable = None
    """The panel: samples of the same one were played on the same seeds."""


@dataclass(frozen=True)
class Posterior:
    """The beliefs about pods' true means, after their panels."""

    means: Array
    """(pods,): shrunk towards each other."""
    errors: Array
    """(pods,): standard deviations of the true means."""
    draws: Array
    """(draws, pods): true means as they may be together."""

    @property
    def best(self) -> Array:
        """(pods,): probabilities of having the highest true mean; they sum to 1."""
        return best_of(self.draws)


def best_of(draws: Array) -> Array:
    """The share of draws that each pod leads, (pods,), of what they are worth, (draws, pods); those
    that are level share a draw."""
    # Where every episode returned -200, the first of two algorithms was the best for certain.
    draw, pod = np.nonzero(leads(draws))
    shares = 1 / np.bincount(draw)
    return np.bincount(pod, weights=shares[draw], minlength=draws.shape[1]) / len(draws)


def leads(draws: Array) -> NDArray[np.bool_]:
    """True where a pod has the most of its draw, (..., pods), but for rounding."""
    most = draws.max(axis=-1, keepdims=True)
    return np.asarray(draws >= most - LEVEL * np.abs(most))


def contenders(best: ArrayLike) -> float:
    """The number of equal pods among which it would be as open who is the best: the exponential of
    the entropy of these probabilities, (pods,)."""
    shares = np.asarray(best, dtype=np.float64)
    shares = shares[shares > 0]
    return math.exp(-float((shares * np.log(shares)).sum()))


def covariance(samples: Sequence[Sample]) -> Array:
    """The covariance of the samples' means, (pods, pods).

    Correlations of pods with common seeds are estimated from few episodes each, and there are many
    pairs, so they are shrunk towards their mean on Fisher's scale z = atanh r, where an estimate
    from n episodes has a variance of 1 / (n - 3) (Fisher 1921), by the share of their scatter that
    this error explains (empirical Bayes). Without common seeds, or a spread, they are 0.

    Raises:
        ValueError: a sample has fewer than two returns.
    """
    if any(len(sample.returns) < 2 for sample in samples):
        raise ValueError("a sample needs at least two returns")
    errors = [standard_error(each.returns) for each in samples]
    whole = np.eye(len(samples))
    panels: dict[tuple[Hashable, int], list[int]] = {}
    for place, sample in enumerate(samples):
        if sample.seeds is not None and errors[place] > SMALLEST:
            panels.setdefault((sample.seeds, len(sample.returns)), []).append(place)
    for (_, episodes), places in panels.items():
        if len(places) > 1 and episodes > 3:
            returns = np.array([samples[place].returns for place in places])
            whole[np.ix_(places, places)] = _shrunk(np.corrcoef(returns), episodes)
    return whole * np.outer(errors, errors)


def _shrunk(correlations: Array, episodes: int) -> Array:
    """A matrix of correlations with each shrunk towards their mean; no eigenvalue is negative."""
    pairs = np.triu_indices(len(correlations), 1)
    z = np.arctanh(np.clip(correlations[pairs], -0.999, 0.999))
    error = 1 / (episodes - 3)
    # of one pair the scatter is unknown: it is believed, less what its error takes
    scatter = z.var(ddof=1) if len(z) > 1 else z[0] ** 2
    centre = z.mean() if len(z) > 1 else 0.0
    kept = max(0.0, 1 - error / scatter) if scatter > 0 else 0.0
    shrunk = np.eye(len(correlations))
    shrunk[pairs] = np.tanh(centre + kept * (z - centre))
    shrunk.T[pairs] = shrunk[pairs]
    values, vectors = np.linalg.eigh(shrunk)
    if values[0] < 0:  # pairs that were shrunk one by one may contradict each other
        shrunk = (vectors * np.maximum(values, 1e-9)) @ vectors.T
        scale = np.sqrt(np.diag(shrunk))
        shrunk = shrunk / np.outer(scale, scale)
    return shrunk


def posterior(means: ArrayLike, errors: Array, *, key: int = 0, draws: int = DRAWS) -> Posterior:
    """The beliefs about true means that are spread normally around a common one.

    With m the means that were seen, S their covariance, and true means of N(mu, tau^2), the
    marginal of m is N(mu 1, S + tau^2 I). mu has a flat prior and is integrated out, tau a flat one
    on the spread that the means can have (Gelman et al., Bayesian Data Analysis, section 5.4). The
    estimates are the empirical-Bayes ones, but for the uncertainty of tau, which counts: of eight
    equal pods the first is otherwise called the best too often.

    Args:
        means: (pods,), of each pod's panel.
        errors: (pods, pods), their covariance.
        key: the root of the draws.
        draws: from the posterior, for the probabilities of being the best.
    """
    seen = np.asarray(means, dtype=np.float64)
    if len(seen) == 1:
        error = np.sqrt(np.diag(errors))
        noise = np.random.default_rng(key).standard_normal((draws, 1))
        return Posterior(seen, error, seen + error * noise)
    values, vectors = np.diagonal(errors), np.eye(len(seen))
    if np.count_nonzero(errors) > np.count_nonzero(values):  # 13 ms for 96 pods, at each merge
        values, vectors = np.linalg.eigh(errors)
    # Of pods that are exactly alike eigh gives 1e-16 for 0, and whose root told them apart.
    values = np.where(values > LEVEL * values.max(), values, 0.0)
    spread = seen.std(ddof=1)
    spread = spread if spread > SMALLEST else 1e-12
    taus = spread * WIDEST * (np.arange(SPREADS) + 0.5) / SPREADS
    total = values + taus[:, None] ** 2  # (taus, pods), in the covariance's eigenvectors' axes
    ones, y = vectors.sum(axis=0), vectors.T @ seen
    weight = ones**2 / total
    mu = (ones * y / total).sum(axis=1) / weight.sum(axis=1)
    rest = y - mu[:, None] * ones
    log = -0.5 * (np.log(total).sum(axis=1) + np.log(weight.sum(axis=1)) + (rest**2 / total).sum(1))
    share = np.exp(log - log.max())
    share /= share.sum()
    kept = taus[:, None] ** 2 / total
    centres = (mu[:, None] * ones + kept * rest) @ vectors.T
    slack = ((1 - kept) * ones) @ vectors.T  # what an error of mu moves a pod's mean by
    variances = (kept * values) @ (vectors**2).T + slack**2 / weight.sum(axis=1)[:, None]
    centre = share @ centres
    scatter = share @ (variances + (centres - centre) ** 2)
    rng = np.random.default_rng(key)
    which = rng.choice(SPREADS, size=draws, p=share)
    noise = rng.standard_normal((draws, len(seen))) * np.sqrt(kept * values)[which]
    moved = rng.standard_normal(draws) / np.sqrt(weight.sum(axis=1)[which])
    drawn = centres[which] + noise @ vectors.T + moved[:, None] * slack[which]
    return Posterior(centre, np.sqrt(scatter), drawn)


def iqm(values: ArrayLike) -> float:
    """The interquartile mean: of the middle half of all values (Agarwal et al. 2021), from which a
    quarter at each end, rounded down, is left out."""
    flat = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    cut = len(flat) // 4
    return float(flat[cut : len(flat) - cut].mean())


def iqm_interval(
    strata: Sequence[Sequence[float]], *, key: int = 0, draws: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """The percentile interval of the interquartile mean of all values, by a bootstrap that draws
    within each stratum (a task, or one pod's episodes)."""
    rng = np.random.default_rng(key)
    groups = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    drawn = np.sort(
        np.concatenate([rng.choice(group, (draws, len(group))) for group in groups], axis=1), axis=1
    )
    cut = drawn.shape[1] // 4
    found = drawn[:, cut : drawn.shape[1] - cut].mean(axis=1)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Improvement:
    """The probability that one pod's episode returns more than another's; ties count half."""

    probability: float
    low: float
    high: float


def improvement(
    one: ArrayLike, other: ArrayLike, *, paired: bool, level: float = 0.95
) -> Improvement:
    """The probability of improvement with its interval.

    On common seeds episodes are compared seed by seed, with Wilson's interval (1927). Otherwise it
    is Mann and Whitney's U / (n m), with the interval by which Newcombe (2006, his method 5) solves
    for the probabilities from which U lies z standard errors: it holds near 0 and 1, too.
    """
    x, y = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    z = NormalDist().inv_cdf((1 + level) / 2)
    if paired:
        wins = float(((np.sign(x - y) + 1) / 2).mean())
        return _within(wins, z, lambda p: p * (1 - p) / len(x))
    n, m = len(x), len(y)
    wins = float(((np.sign(x[:, None] - y[None, :]) + 1) / 2).mean())
    more = (n + m) / 2 - 1  # episodes that a pair has in common with others, on average

    def variance(p: float) -> float:
        return p * (1 - p) * (1 + more * ((1 - p) / (2 - p) + p / (1 + p))) / (n * m)

    return _within(wins, z, variance)


def _within(seen: float, z: float, variance: Callable[[float], float]) -> Improvement:
    """The interval of the probabilities under which what was seen is within z standard errors."""

    def end(outside: float) -> float:
        inside = seen
        for _ in range(50):
            middle = (inside + outside) / 2
            if abs(middle - seen) <= z * math.sqrt(variance(middle)):
                inside = middle
            else:
                outside = middle
        return inside

    return Improvement(seen, end(0.0), end(1.0))


@dataclass(frozen=True)
class Trend:
    """A straight line through a learning curve."""

    slope: float
    """Return per unit of experience."""
    error: float
    """Its standard error."""


def trend(experience: ArrayLike, means: ArrayLike, errors: ArrayLike | None = None) -> Trend | None:
    """The slope of a learning curve by weighted least squares; None of fewer than three points.

    The scatter around the line is estimated from the points, so that what moves a policy beyond
    the error of its panels counts too; by ``errors`` of the means, if given, the points are
    weighted. The slope's error is never less than follows from these (the scale factor of the
    Particle Data Group: of three points the scatter alone is often near 0 by chance).
    """
    x, y = np.asarray(experience, dtype=np.float64), np.asarray(means, dtype=np.float64)
    if len(x) < 3 or x.min() == x.max():
        return None
    weight = np.ones(len(x)) if errors is None else 1 / np.asarray(errors, dtype=np.float64) ** 2
    centre = np.average(x, weights=weight)
    apart = x - centre
    squares = float((weight * apart**2).sum())
    slope = float((weight * apart * y).sum()) / squares
    left = y - np.average(y, weights=weight) - slope * apart
    scatter = float((weight * left**2).sum()) / (len(x) - 2)
    least = 0.0 if errors is None else 1.0
    return Trend(slope, math.sqrt(max(scatter, least) / squares))


def profile(scores: ArrayLike, levels: ArrayLike) -> Array:
    """The performance profile of runs, (levels,): the share of scores above each level (Agarwal
    et al. 2021, score distributions)."""
    sorted_scores = np.sort(np.asarray(scores, dtype=np.float64), axis=None)
    below = np.searchsorted(sorted_scores, np.asarray(levels, dtype=np.float64), side="right")
    return 1.0 - below / len(sorted_scores)


def profile_band(
    strata: Sequence[Sequence[float]], levels: ArrayLike, *, key: int = 0, draws: int = 2000,
    level: float = 0.95,
) -> tuple[Array, Array]:  # fmt: skip
    """The pointwise percentile band of ``profile``, (levels,) each, by a bootstrap that draws
    within each stratum (a task)."""
    rng = np.random.default_rng(key)
    groups = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    at = np.asarray(levels, dtype=np.float64)
    drawn = [
        profile(np.concatenate([rng.choice(group, len(group)) for group in groups]), at)
        for _ in range(draws)
    ]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def improvement_over_tasks(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], *, key: int = 0,
    draws: int = 2000, level: float = 0.95,
) -> Improvement:  # fmt: skip
    """The probability of improvement between two sets of runs, a stratum of scores for each task:
    the mean over tasks of U / (n m), with the percentile interval of a bootstrap that draws runs
    within each task. Of one task ``improvement`` has an interval that holds for few runs, too."""
    if len(one) == 1:
        return improvement(one[0], other[0], paired=False, level=level)
    rng = np.random.default_rng(key)
    whole, drawn = 0.0, np.zeros(draws)
    for mine, theirs in zip(one, other, strict=True):
        x, y = np.asarray(mine, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
        wins = (np.sign(x[:, None] - y[None, :]) + 1) / 2
        rows = rng.integers(len(x), size=(draws, len(x)))
        columns = rng.integers(len(y), size=(draws, len(y)))
        whole += float(wins.mean()) / len(one)
        drawn += wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2)) / len(one)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Improvement(whole, float(low), float(high))


ORDERS = 20_000
"""Assignments of labels up to which a permutation test tries all, and draws so many of more."""


def improvement_test(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], *, key: int = 0
) -> float:
    """The two-sided p of ``improvement_over_tasks`` by permutation: where two sets of runs are
    equal, the probability that it is as far from 0.5 as was seen.

    Labels are exchanged within each task. All assignments are tried if there are at most
    ``ORDERS``; else as many are drawn, and the one that was seen is one of them.
    """
    rng = np.random.default_rng(key)
    tasks = [_ranked(mine, theirs) for mine, theirs in zip(one, other, strict=True)]
    seen = sum(float(ranked[:n].sum()) for ranked, n in tasks)
    exact = math.prod(math.comb(len(ranked), n) for ranked, n in tasks) <= ORDERS
    found = np.zeros(1) if exact else np.zeros(ORDERS - 1)
    for ranked, n in tasks:
        if exact:
            sums = [sum(chosen) for chosen in combinations(ranked, n)]
            found = np.add.outer(found, sums).ravel()
        else:
            orders = rng.random((len(found), len(ranked))).argsort(axis=1)
            found += ranked[orders[:, :n]].sum(axis=1)
    beyond = int((np.abs(found) >= abs(seen) - 1e-9).sum())
    return beyond / len(found) if exact else (beyond + 1) / ORDERS


def _ranked(one: Sequence[float], other: Sequence[float]) -> tuple[Array, int]:
    """The ranks of two samples together, centred and scaled so that the sum of the first sample's
    is U / (n m) - 0.5; and its size."""
    pooled = np.asarray([*one, *other], dtype=np.float64)
    ranks = (np.sign(pooled[:, None] - pooled[None, :]) / 2).sum(axis=1)
    return ranks / (len(one) * len(other)), len(one)

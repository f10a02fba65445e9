"""Statistics of episode returns: means, intervals, and tests on common seeds.

Intervals are Student's: exact for normal returns at any number of episodes, and the usual
approximation for others. ``chosen_interval`` allows for a choice, too, and for one bad episode. A
sample of equal returns has no spread to learn from, and its interval is a point. What skewed
returns allow to be claimed is ``confirmation``'s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcpod._student_t import t_quantile as t_quantile
from hpcpod.records.evaluations import SCORE_EPISODES, SCORE_ERROR
from hpcpod.records.records import Report

GATE = 0.05
"""Level of the one-sided test that a difference exceeds 0, over all leaders it is tried with."""

Returns = Sequence[float]


def mean(returns: Returns) -> float:
    """The sample mean."""
    return math.fsum(returns) / len(returns)


def sd(returns: Returns) -> float:
    """The sample's standard deviation (n - 1); 0 for a single return, and for equal ones."""
    # the mean of twelve returns of 0.1 is another number than 0.1
    if len(returns) < 2 or min(returns) == max(returns):
        return 0.0
    centre = (mean(returns),) * len(returns)
    return math.dist(returns, centre) / math.sqrt(len(returns) - 1)


def interval(
    returns: Returns, confidence: float = 0.95, episodes: int | None = None
) -> tuple[float, float]:
    """The two-sided confidence interval of the mean; at least two returns.

    Args:
        returns: of episodes, or drawn to have a score's mean and standard error.
        confidence: of the interval.
        episodes: that such a score is of, 2 or more; None: as many as there are returns.
    """
    freedom = (episodes or len(returns)) - 1
    half = t_quantile((1 + confidence) / 2, freedom) * standard_error(returns)
    centre = mean(returns)
    return centre - half, centre + half


def measured(returns: Returns, metrics: Mapping[str, float]) -> tuple[float, float, int]:
    """The plain 95 % interval of an evaluation's mean, and its episodes.

    A program's score has the error and the episodes that the program tells. One without an error
    counts as a single number, which has no interval: both ends are the mean.

    Args:
        returns: at least two.
        metrics: of the evaluation.
    """
    told, error = metrics.get(SCORE_EPISODES, 0.0), metrics.get(SCORE_ERROR, 0.0)
    if not (1 <= told < 2**53 and 0 <= error < math.inf):
        return *interval(returns), len(returns)
    centre, episodes = mean(returns), int(told)
    half = 0.0 if episodes < 2 else t_quantile(0.975, episodes - 1) * error
    return centre - half, centre + half, episodes


def played(returns: Returns, report: Report) -> int:
    """Episodes of a score on fresh seeds: of a program's as many as it tells.

    Args:
        returns: of all sets of seeds of the attempt.
        report: answers the last of them.
    """
    told = report.metrics.get(SCORE_EPISODES, 0.0)
    sets = len(returns) // max(1, len(report.returns))
    return int(told) * sets if 2 <= told < 2**53 else len(returns)


def chosen_interval(
    mean: float, low: float, episodes: int, candidates: int, worst: float | None = None
) -> tuple[float, float]:
    """The 95 % interval of a score that was chosen as the best of several (Bonferroni).

    Such intervals hold the true means of all candidates at once with about 95 %, and so that of
    the chosen one, whichever it is; the plain interval of a maximum does not. The lower end is
    that of the sample with one more episode, as bad as any: where one episode in a hundred fails
    most samples hold none, and their spread is too small to doubt by. It is no proof, unlike
    ``confirmation``'s; what it covers is measured (``benchmarks/selection.py``, first_row).

    Args:
        mean: the score.
        low: the lower end of its plain 95 % interval, see ``interval``.
        episodes: of the score; of a single one there is no interval, and both ends are the mean.
        candidates: scores among which it was chosen, itself included.
        worst: the lowest return that the run has seen; None: the sample stands for itself.
    """
    if episodes < 2:
        return mean, mean
    level, n = 1 - 0.025 / max(1, candidates), episodes
    error = (mean - low) / t_quantile(0.975, n - 1)
    half = t_quantile(level, n - 1) * error
    if worst is None or worst >= mean:
        return mean - half, mean + half
    fallen = mean - (mean - worst) / (n + 1)
    squares = (n - 1) * n * error**2 + (mean - worst) ** 2 * n / (n + 1)
    # without that episode a winner's interval held the truth in 38 % of runs, not 95
    wider = t_quantile(level, n) * math.sqrt(squares / n / (n + 1))
    return min(mean - half, fallen - wider), mean + half


def spent(alpha: float, attempt: int) -> float:
    """The level of the k-th attempt: ``alpha / (k (k + 1))``, which sums to ``alpha`` over all."""
    return alpha / (attempt * (attempt + 1))


@dataclass(frozen=True)
class Difference:
    """One pod's returns minus another's."""

    mean: float
    low: float
    """One-sided lower bound of the true mean, at the level of the test."""
    episodes: int
    """Of each of the two."""
    paired: bool
    """Both played the same episodes."""


def difference(
    challenger: Returns, incumbent: Returns, *, paired: bool, level: float = GATE
) -> Difference | None:
    """The difference of two means with its bound; None for want of episodes.

    On common seeds the variance of D = A - B is Var A + Var B - 2 Cov(A, B): what makes an
    episode easy for both cancels. Without them the bound is Welch's (1947), whose degrees of
    freedom are rounded down.

    Args:
        challenger: returns.
        incumbent: returns; as many, of the same seeds in the same order, if ``paired``.
        paired: whether seeds are common.
        level: with which probability the true mean is below ``low``, at most.
    """
    episodes = min(len(challenger), len(incumbent))
    if episodes < 2 or (paired and len(challenger) != len(incumbent)):
        return None
    centre = mean(challenger) - mean(incumbent)
    if paired:
        centre = (math.fsum(challenger) - math.fsum(incumbent)) / episodes
        squares = math.dist(challenger, incumbent) ** 2 - episodes * centre**2
        error = math.sqrt(max(0.0, squares) / (episodes - 1) / episodes)
        freedom = episodes - 1
    else:
        error, freedom = _welch(challenger, incumbent)
    margin = t_quantile(1 - level, freedom) * error
    return Difference(centre, centre - margin, episodes, paired)


def _welch(one: Returns, other: Returns) -> tuple[float, int]:
    """The standard error of a difference of means, and its degrees of freedom."""
    parts = [(standard_error(each) ** 2, len(each) - 1) for each in (one, other)]
    variance = sum(square for square, _ in parts)
    if variance == 0.0:
        return 0.0, min(freedom for _, freedom in parts)
    # by shares: the square of a variance of 1e-250 is 0
    freedom = 1 / sum((square / variance) ** 2 / freedom for square, freedom in parts)
    # of equal variances 6 came out as 5.999
    return math.sqrt(variance), max(1, int(freedom + 1e-9))


def halves(returns: Returns) -> tuple[Returns, Returns]:
    """The episodes by which pods are ranked, and those on which they are then compared: what
    chose the best and the worst says nothing true of their difference."""
    return returns[0::2], returns[1::2]


def standard_error(returns: Returns) -> float:
    """Of the sample mean."""
    return sd(returns) / math.sqrt(len(returns))

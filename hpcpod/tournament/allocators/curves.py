"""Freeze-thaw: pods train by where their learning curves will be when the budget ends.

A curve is an asymptote that it approaches, with steps that shrink: a Gaussian process in experience
x with the kernel of exponentials that decay at unknown rates, beta^alpha / (x + x' + beta)^alpha
(Swersky, Snoek and Adams 2014). Curves share the mean of their asymptotes, how far these differ,
and how large the decaying part is; over these a grid is averaged by likelihood. The belief about a
pod's score at the end has the error of its panels and of all that is not known of its future, so a
slow starter is believed in for as long as its curve allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.allocators.contention import drawn

Array = NDArray[np.float64]
ALPHA = 1.0
GRID = {
    "between": (0.3, 1.0, 2.0),
    "within": (0.5, 1.0, 2.0, 4.0),
    "beta": (0.1, 0.3, 1.0, 3.0),
    "jitter": (0.05, 0.2),
}
"""Candidates for a population's constants. Standard deviations are in units of how far all points
of all curves spread, beta in units of the longest curve."""
DRAWS = 512
UNLIKELY = 0.01
"""Constants that are less likely than this part of the likeliest are left out."""


@dataclass(frozen=True)
class Constants:
    """Constants of a population's curves."""

    between: float
    """Standard deviation of asymptotes."""
    within: float
    """Standard deviation of where curves begin, about their asymptotes."""
    beta: float
    """Experience after which a curve has come half-way."""
    jitter: float
    """Standard deviation of what a round moves a policy by, beside its trend."""


class Curves:
    """Trains the pods that may be the best when the budget ends."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Order pods by draws of their scores at the end."""
        pods = prospects.scored
        if not pods:
            return Allocation()
        means, errors = forecast(pods, prospects)
        rng = np.random.default_rng(prospects.key)
        draws = means + errors * rng.standard_normal((max(DRAWS, len(pods)), len(pods)))
        return drawn(prospects, pods, draws)


def forecast(pods: list[Candidate], prospects: Prospects) -> tuple[Array, Array]:
    """The expected score of each pod at the end of the budget, and its standard deviation.

    The end of a pod is the experience that it has when it alone trains on, or, without a budget,
    its last round.
    """
    longest = max(pod.spent for pod in pods) or 1.0
    ends = []
    for pod in pods:
        per_round = pod.spent / pod.rounds
        left = prospects.left
        if prospects.rounds is not None:
            to_go = per_round * max(0, prospects.rounds - pod.rounds)
            left = to_go if left is None else min(left, to_go)
        ends.append((pod.spent + (pod.spent if left is None else left)) / longest)
    every = np.array([point.mean for pod in pods for point in pod.curve])
    centre, scale = float(every.mean()), float(every.std()) or 1.0
    curves = [
        (
            np.array([point.spent / longest for point in pod.curve]),
            np.array([(point.mean - centre) / scale for point in pod.curve]),
            np.array([point.error / scale for point in pod.curve]),
        )
        for pod in pods
    ]
    grid = [Constants(*values) for values in product(*GRID.values())]
    fits = [fit(curves, constants) for constants in grid]
    weights = np.exp(np.array([log for log, _ in fits]) - max(log for log, _ in fits))
    likely = [i for i in np.argsort(-weights) if weights[i] > UNLIKELY]
    shares = weights[likely] / weights[likely].sum()
    at_end = zip(curves, ends, strict=True)
    found = np.array(
        [[predict(*c, end, fits[i][1], grid[i]) for i in likely] for c, end in at_end]
    )  # (pods, constants, 2)
    means = found[:, :, 0] @ shares
    variances = (found[:, :, 1] ** 2 + (found[:, :, 0] - means[:, None]) ** 2) @ shares
    return centre + scale * means, scale * np.sqrt(variances)


def kernel(one: Array, other: Array, constants: Constants) -> Array:
    """The covariance of points of one curve without what is not its trend, (points, points)."""
    together = one[:, None] + other[None, :] + constants.beta
    return np.asarray(
        constants.between**2 + constants.within**2 * (constants.beta / together) ** ALPHA
    )


def fit(curves: list[tuple[Array, Array, Array]], constants: Constants) -> tuple[float, float]:
    """The log likelihood of all curves, and the mean of their asymptotes that makes it largest."""
    squares = ones = cross = log = 0.0
    for x, y, errors in curves:
        whole = kernel(x, x, constants) + np.diag(errors**2 + constants.jitter**2)
        lower = np.linalg.cholesky(whole)
        left = np.linalg.solve(lower, np.stack([y, np.ones(len(y))], axis=1))
        squares += float(left[:, 0] @ left[:, 0])
        cross += float(left[:, 0] @ left[:, 1])
        ones += float(left[:, 1] @ left[:, 1])
        log += float(np.log(np.diag(lower)).sum())
    return -log - (squares - cross**2 / ones) / 2, cross / ones


def predict(
    x: Array, y: Array, errors: Array, end: float, level: float, constants: Constants
) -> tuple[float, float]:
    """The mean and the standard deviation of one curve at an experience."""
    whole = kernel(x, x, constants) + np.diag(errors**2 + constants.jitter**2)
    at = np.array([end])
    across = kernel(at, x, constants)[0]
    mean = level + float(across @ np.linalg.solve(whole, y - level))
    variance = float(kernel(at, at, constants)[0, 0] - across @ np.linalg.solve(whole, across))
    return mean, max(1e-9, variance + constants.jitter**2) ** 0.5

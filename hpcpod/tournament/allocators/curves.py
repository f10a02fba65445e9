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
    """Constants of a population's curves, (grid,) each: they are tried all at once."""

    between: Array
    """Standard deviation of asymptotes."""
    within: Array
    """Standard deviation of where curves begin, about their asymptotes."""
    beta: Array
    """Experience after which a curve has come half-way."""
    jitter: Array
    """Standard deviation of what a round moves a policy by, beside its trend."""

    def only(self, chosen: NDArray[np.bool_]) -> Constants:
        """Some of them."""
        own = (self.between, self.within, self.beta, self.jitter)
        return Constants(*(each[chosen] for each in own))


class Curves:
    """Trains the pods that may be the best when the budget ends."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Order pods by draws of their scores at the end."""
        pods = prospects.rivals
        if not pods:
            return Allocation()
        means, errors = forecast(pods, prospects)
        rng = np.random.default_rng(prospects.key)
        draws = means + errors * rng.standard_normal((max(DRAWS, len(pods)), len(pods)))
        return drawn(prospects, pods, draws, "it is the best when the budget ends")


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
    grid = Constants(*np.array(list(product(*GRID.values()))).T)
    logs, levels = fit(curves, grid)
    weights = np.exp(logs - logs.max())
    likely = weights > UNLIKELY
    shares, grid, levels = (
        weights[likely] / weights[likely].sum(),
        grid.only(likely),
        levels[likely],
    )
    at_end = zip(curves, ends, strict=True)
    found = np.array([predict(*c, end, levels, grid) for c, end in at_end])  # (pods, 2, constants)
    means = found[:, 0] @ shares
    variances = (found[:, 1] ** 2 + (found[:, 0] - means[:, None]) ** 2) @ shares
    return centre + scale * means, scale * np.sqrt(variances)


def kernel(one: Array, other: Array, constants: Constants) -> Array:
    """The covariance of points of one curve without what is not its trend, (grid, points,
    points)."""
    beta = constants.beta[:, None, None]
    together = one[:, None] + other[None, :] + beta
    trend = (constants.within**2)[:, None, None] * (beta / together) ** ALPHA
    return np.asarray((constants.between**2)[:, None, None] + trend)


def _panels(x: Array, errors: Array, constants: Constants) -> Array:
    """The covariance of the means that were seen, (grid, points, points)."""
    noise = errors**2 + (constants.jitter**2)[:, None]  # (grid, points)
    return np.asarray(kernel(x, x, constants) + noise[:, :, None] * np.eye(len(x)))


def fit(curves: list[tuple[Array, Array, Array]], constants: Constants) -> tuple[Array, Array]:
    """The log likelihood of all curves, and the mean of their asymptotes that makes it largest,
    (grid,) each."""
    squares, ones, cross, log = np.zeros((4, len(constants.beta)))
    for x, y, errors in curves:
        lower = np.linalg.cholesky(_panels(x, errors, constants))
        both = np.broadcast_to(np.stack([y, np.ones(len(y))], axis=1), (*lower.shape[:2], 2))
        left = np.linalg.solve(lower, both)
        squares += (left[..., 0] ** 2).sum(axis=1)
        cross += (left[..., 0] * left[..., 1]).sum(axis=1)
        ones += (left[..., 1] ** 2).sum(axis=1)
        log += np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return -log - (squares - cross**2 / ones) / 2, cross / ones


def predict(
    x: Array, y: Array, errors: Array, end: float, levels: Array, constants: Constants
) -> tuple[Array, Array]:
    """The mean and the standard deviation of one curve at an experience, (grid,) each."""
    whole = _panels(x, errors, constants)
    at = np.array([end])
    across = kernel(at, x, constants)  # (grid, 1, points)
    rest = (y - levels[:, None])[..., None]
    both = np.linalg.solve(whole, np.concatenate([rest, across.transpose(0, 2, 1)], axis=2))
    known = (across @ both)[:, 0]  # (grid, 2): the mean's move, and the variance that it takes
    variance = kernel(at, at, constants)[:, 0, 0] - known[:, 1] + constants.jitter**2
    return levels + known[:, 0], np.sqrt(np.maximum(1e-9, variance))

"""Optimal computing budget allocation (Chen et al. 2000), with common seeds (Fu et al. 2007).

To find the best of several means, samples are best spent in the ratios

    N_i / N_j = (s_i / d_i)^2 / (s_j / d_j)^2,    N_b = s_b sqrt(sum over i of (N_i / s_i)^2)

with s_i the standard deviation of a sample of pod i less one of the best, b, and d_i how far i is
behind. A round is a sample here of what a pod's training leads to: s_i has the scatter of its curve
beside the error of its panel. The pod trains next that has the fewest rounds for its share.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.allocators.contention import ordered, seen

LEAST = 0.25
"""A pod rests whose share of the rounds would be smaller than this part of an equal one."""


class Ocba:
    """Rounds in the ratios of optimal computing budget allocation."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Order pods by what their share lacks."""
        pods = prospects.scored
        if len(pods) < 2:
            return Allocation()
        shares = ratios(*seen(pods), np.array([_scatter(pod) for pod in pods]))
        rounds = np.array([pod.rounds for pod in pods], dtype=np.float64)
        lacks = shares - rounds / rounds.sum()
        order = np.argsort(-lacks, kind="stable")
        resting = {
            pods[place].pod: f"its share of the rounds is {shares[place]:.2g}"
            for place in order
            if shares[place] < LEAST / len(pods) and not pods[place].protected
        }
        return ordered(prospects, [pods[place].pod for place in order], resting)


def ratios(
    means: NDArray[np.float64], errors: NDArray[np.float64], scatter: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The share of each pod, (pods,); they sum to 1.

    Args:
        means: (pods,), best first.
        errors: (pods, pods), their covariance.
        scatter: (pods,), the variance of each pod's curve from round to round beyond its errors.
    """
    own = np.diag(errors) + scatter
    differences = np.maximum(own + own[0] - 2 * errors[0], 1e-12)
    # a gap of 0 would take the whole budget
    gaps = np.maximum(means[0] - means, 0.1 * np.sqrt(differences))
    shares = differences / np.maximum(gaps, 1e-12) ** 2
    rest = shares[1:] ** 2 / np.maximum(own[1:], 1e-12)
    shares[0] = math.sqrt(max(own[0], 1e-12) * float(rest.sum()))
    return np.asarray(shares / shares.sum())


def _scatter(pod: Candidate) -> float:
    """The mean square by which a pod's means move between evaluations, beyond their errors."""
    pairs = list(zip(pod.curve, pod.curve[1:], strict=False))
    if not pairs:
        return 0.0
    moved = sum((b.mean - a.mean) ** 2 - a.error**2 - b.error**2 for a, b in pairs) / len(pairs)
    return max(0.0, moved)

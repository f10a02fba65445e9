"""Optimal computing budget allocation of rounds; the ratios are ``tournament.selection``'s.

A round is a sample here of what a pod's training leads to: its standard deviation has the scatter
of its curve beside the error of its panel. The pod trains next that has the fewest rounds for its
share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.allocators.contention import ordered, seen
from hpcpod.tournament.selection import shares

LEAST = 0.25
"""A pod rests whose share of the rounds would be smaller than this part of an equal one."""


class Ocba:
    """Rounds in the ratios of optimal computing budget allocation."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Order pods by what their share lacks."""
        pods = prospects.rivals
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
    differences = own + own[0] - 2 * errors[0]
    return np.array(shares(means.tolist(), own.tolist(), differences.tolist()))


def _scatter(pod: Candidate) -> float:
    """The mean square by which a pod's means move between evaluations, beyond their errors."""
    pairs = list(zip(pod.curve, pod.curve[1:], strict=False))
    if not pairs:
        return 0.0
    moved = sum((b.mean - a.mean) ** 2 - a.error**2 - b.error**2 for a, b in pairs) / len(pairs)
    return max(0.0, moved)

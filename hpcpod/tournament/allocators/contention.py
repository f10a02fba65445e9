"""The shared part of allocators that draw who trains from beliefs about what pods are worth."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.scores import Sample, covariance

Array = NDArray[np.float64]
LEAST = 0.02
"""A pod below this probability of being the best is out of contention."""


def seen(pods: list[Candidate]) -> tuple[Array, Array]:
    """The scores of pods, (pods,), and the covariance of their panels' means, (pods, pods)."""
    means = np.array([pod.score for pod in pods], dtype=np.float64)
    samples = [Sample(pod.returns, (pod.rounds, len(pod.returns))) for pod in pods]
    return means, covariance(samples)


def drawn(prospects: Prospects, pods: list[Candidate], best: Array, draws: Array) -> Allocation:
    """The allocation that goes by draws of what pods are worth (Thompson sampling).

    The pod that leads the first draw trains first, then the one that leads the second one among the
    others, and so on. Pods without a score come first. As many train as are in contention: the
    exponential of the entropy of who is the best, rounded up.

    Args:
        prospects: of all pods.
        pods: those with a score.
        best: (pods,), the probability that each is the best.
        draws: (draws, pods), what each is worth; at least as many draws as pods.
    """
    order: list[int] = []
    left = np.ones(len(pods), dtype=bool)
    for draw in draws[: len(pods)]:
        order.append(int(np.where(left, draw, -np.inf).argmax()))
        left[order[-1]] = False
    shares = best[best > 0]
    contenders = max(1, math.ceil(math.exp(-float((shares * np.log(shares)).sum())) - 1e-9))
    out = [place for place in order[contenders:] if best[place] < LEAST or contenders < len(pods)]
    resting = {
        pods[place].pod: f"it is the best with a probability of {best[place]:.2g}"
        for place in out
        if not pods[place].protected
    }
    names = (*(each.pod for each in prospects.unscored), *(pods[place].pod for place in order))
    return Allocation(tuple(name for name in names if name not in resting), resting)

"""The shared part of allocators that draw who trains from beliefs about what pods are worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.scores import Sample, best_of, contenders, covariance, leads

Array = NDArray[np.float64]


def seen(pods: list[Candidate]) -> tuple[Array, Array]:
    """The scores of pods, (pods,), and the covariance of their panels' means, (pods, pods)."""
    means = np.array([pod.score for pod in pods], dtype=np.float64)
    samples = [Sample(pod.returns, pod.rounds) for pod in pods]
    return means, covariance(samples)


def drawn(
    prospects: Prospects, pods: list[Candidate], draws: Array, said: str = "it is the best"
) -> Allocation:
    """The allocation that goes by draws of what pods are worth (Thompson sampling).

    The pod that leads the first draw trains first, then the one that leads the second one among the
    others, and so on; of those that are level the least experienced. As many train as are in
    contention (``scores.contenders``), rounded up.

    Args:
        prospects: of all pods.
        pods: those with a score.
        draws: (draws, pods), what each is worth; at least as many draws as pods.
        said: what a draw decides, in words.
    """
    order: list[int] = []
    left = np.ones(len(pods), dtype=bool)
    spent = np.array([pod.spent for pod in pods])
    for draw in draws[: len(pods)]:
        level = leads(np.where(left, draw, -np.inf))
        order.append(int(np.where(level, spent, np.inf).argmin()))
        left[order[-1]] = False
    best = best_of(draws)
    training = math.ceil(contenders(best) - 1e-9)
    resting = {
        pods[place].pod: f"{said} with a probability of {best[place]:.2g}"
        for place in order[training:]
        if not pods[place].protected
    }
    return ordered(prospects, [pods[place].pod for place in order], resting)


def ordered(prospects: Prospects, names: Iterable[str], resting: Mapping[str, str]) -> Allocation:
    """The allocation by an order of the pods with a score; those without one come first, and those
    that are done have no part in it."""
    going = {each.pod for each in prospects.candidates}
    idle = {pod: why for pod, why in resting.items() if pod in going}
    every = (*(each.pod for each in prospects.unscored), *names)
    return Allocation(tuple(pod for pod in every if pod in going and pod not in idle), idle)

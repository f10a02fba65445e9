"""Bandit: a time-varying model of what rounds gain, and the bounds that it puts on candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Hyperparameters
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gains import Gain, gains_of, unit
from hpcpod.tournament.generators.gaussian_process import (
    Array,
    Kernel,
    distances,
    likeliest,
    process,
    standardized,
)
from hpcpod.tournament.statistics import mean

LEAST = 6
"""Rounds to learn from, below which a copy is mutated as any other."""
MOST = 200
"""Rounds that are learned from, the latest, and at most as many that are in progress."""
LENGTHS, FORGETTING, NOISES = (0.2, 0.5, 1.0, 2.0), (0.0, 0.5, 0.9), (0.1, 0.5, 1.0)
"""Candidates for the kernel's length in units of the ranges, for what is forgotten over the time of
the data, and for the variance of a gain beside what is modelled, of 1 in all."""
C1, C2 = 0.2, 0.4
"""Constants of the bound's width, sqrt(C1 log(C2 n)) standard deviations after n rounds."""


class Bandit:
    """A model of the gains of an algorithm's rounds.

    Args:
        space: of the algorithm.
        gains: seen so far, at least one.
        under_way: hyperparameters of rounds in progress, with the round and the mean return from
            which each goes on.
    """

    def __init__(
        self,
        space: AlgorithmSpace,
        gains: Sequence[Gain],
        under_way: Sequence[tuple[Hyperparameters, int, float]] = (),
    ) -> None:
        self._space = space
        seen = sorted(gains, key=lambda gain: gain.round)[-MOST:]
        scores = [gain.before for gain in seen]
        self._lowest, self._scale = min(scores), (max(scores) - min(scores)) or 1.0
        self._span = float(seen[-1].round - seen[0].round) or 1.0
        x = np.array([self._point(gain.hyperparameters, gain.round, gain.before) for gain in seen])
        y = standardized(np.array([gain.gained for gain in seen]))
        kernels = (_kernel(length, lost) for length, lost in product(LENGTHS, FORGETTING))
        self._model = likeliest(x, y, kernels, NOISES)
        more = np.array([self._point(*each) for each in under_way]).reshape(-1, x.shape[1])
        whole = np.concatenate([x, more])
        self._wide, _ = process(whole, np.zeros(len(whole)), self._model.kernel, self._model.noise)
        self._width = math.sqrt(max(0.0, C1 * math.log(C2 * len(seen))))

    @classmethod
    def of(cls, cohorts: Cohorts, algorithm: str) -> Bandit | None:
        """The model of an algorithm's living pods; None if there is too little to learn from."""
        space, pods = cohorts.algorithms[algorithm], cohorts.board.pods
        kin = [pod for pod in cohorts.board.living if pod.algorithm == algorithm]
        gains = [gain for pod in kin for gain in gains_of(pod, pods)]
        if len(gains) < LEAST or not space.mutable:
            return None
        under_way = [
            (pod.hyperparameters, pod.history[-1].round, mean(pod.history[-1].returns))
            for pod in kin
            if pod.history
        ]
        return cls(space, gains, under_way[-MOST:])

    def bounds(self, candidates: Sequence[Hyperparameters], at: int, before: float | None) -> Array:
        """The upper confidence bound of each candidate's gain, in standard deviations of gains.

        Args:
            candidates: hyperparameters.
            at: the round from which the copy goes on.
            before: its mean return there; None: unknown.
        """
        score = self._lowest if before is None else before
        new = np.array([self._point(each, at, score) for each in candidates])
        return np.asarray(self._model.mean(new) + self._width * self._wide.deviation(new))

    def _point(self, hyperparameters: Hyperparameters, at: int, score: float) -> list[float]:
        own = [unit(self._space, name, hyperparameters[name]) for name in self._space.mutable]
        return [*own, (score - self._lowest) / self._scale, at / self._span]


def _kernel(length: float, lost: float) -> Kernel:
    """The squared exponential in all columns but the last, the time, over which it is forgotten."""

    def kernel(x: Array, other: Array) -> Array:
        apart = distances(x[:, :-1], other[:, :-1]) / length
        time = np.abs(x[:, None, -1] - other[None, :, -1])
        return np.asarray(np.exp(-(apart**2) / 2) * (1.0 - lost) ** (time / 2))

    return kernel

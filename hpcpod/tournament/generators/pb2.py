"""PB2: copies with hyperparameters from a time-varying Gaussian-process bandit.

Population-based bandits (Parker-Holder, Nguyen and Roberts 2020, arXiv 2002.02518) model how much a
round gained, by hyperparameters, score before it and time, and give a copy those hyperparameters
whose upper confidence bound is highest. In plain numpy: a population has some hundred rounds to
learn from, for which no library is needed.
"""

from __future__ import annotations

import math
from itertools import product
from random import Random

import numpy as np

from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.records.records import Hyperparameters, PodState
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
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.mutation import mutate, sample
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.statistics import mean

DRAWN, MOVED = 256, 64
"""Candidates of a copy's hyperparameters: draws from the ranges, and mutations of the parent's."""
LEAST = 6
"""Rounds to learn from, below which a copy is mutated as any other."""
MOST = 200
"""Rounds that are learned from, the latest."""
LENGTHS, FORGETTING, NOISES = (0.2, 0.5, 1.0, 2.0), (0.0, 0.5, 0.9), (0.1, 0.5, 1.0)
"""Candidates for the kernel's length in units of the ranges, for what is forgotten over the time of
the data, and for the variance of a gain beside what is modelled, of 1 in all."""
C1, C2 = 0.2, 0.4
"""Constants of the bound's width, sqrt(C1 log(C2 n)) standard deviations after n rounds."""


class PB2(GentleTruncation):
    """Gentle truncation whose copies get what a model of the gains so far holds most of.

    The kernel is k(x, x') (1 - w)^(|t - t'| / 2), with k the squared exponential of hyperparameters
    in their ranges and of the score before, and t the round. Rounds in progress count as seen where
    the bound's width is concerned, so that copies differ. Structural and initial hyperparameters
    are the parent's. With few rounds to learn from a copy is mutated as by ``gentle_truncation``.
    """

    def copy(self, cohorts: Cohorts, parent: str, at: int, evidence: str, rng: Random) -> Copy:
        """A copy with the hyperparameters of the highest bound."""
        pod = cohorts.board.pods[parent]
        space = cohorts.algorithms[pod.algorithm]
        gains = [
            gain
            for each in cohorts.living.values()
            if each.algorithm == pod.algorithm
            for gain in gains_of(each, cohorts.board.pods)
        ]
        if len(gains) < LEAST or not space.mutable:
            return super().copy(cohorts, parent, at, evidence, rng)
        candidates = [mutate(space, pod.hyperparameters, rng)[0] for _ in range(MOVED)]
        for _ in range(DRAWN):
            drawn = sample(space, rng)
            candidates.append(
                {**pod.hyperparameters, **{name: drawn[name] for name in space.mutable}}
            )
        score = next((e for e in reversed(pod.evaluations) if e.round <= at), pod.best)
        before = gains[-1].before if score is None else mean(score.returns)
        pending = [each for each in cohorts.living.values() if each.algorithm == pod.algorithm]
        best = bounds(space, gains, candidates, pending, at, before).argmax()
        chosen = candidates[int(best)]
        changed = (n for n in sorted(space.mutable) if chosen[n] != pod.hyperparameters[n])
        return Copy(parent, at, chosen, tuple(changed), evidence)


def bounds(
    space: AlgorithmSpace,
    gains: list[Gain],
    candidates: list[dict[str, Scalar]],
    pending: list[PodState],
    at: int,
    before: float,
) -> Array:
    """The upper confidence bound of each candidate's gain, in standard deviations of gains.

    Args:
        space: of the algorithm.
        gains: seen so far.
        candidates: hyperparameters.
        pending: pods whose rounds are in progress.
        at: the round from which the copy goes on.
        before: its mean return there.
    """
    seen = sorted(gains, key=lambda gain: gain.round)[-MOST:]
    scores = np.array([gain.before for gain in seen])
    scale = (scores.max() - scores.min()) or 1.0
    rounds = np.array([gain.round for gain in seen] + [at], dtype=np.float64)
    span = (rounds.max() - rounds.min()) or 1.0

    def point(hyperparameters: Hyperparameters, score: float, time: float) -> list[float]:
        own = [unit(space, name, hyperparameters[name]) for name in space.mutable]
        return [*own, (score - float(scores.min())) / float(scale), time / float(span)]

    x = np.array([point(gain.hyperparameters, gain.before, gain.round) for gain in seen])
    y = standardized(np.array([gain.gained for gain in seen]))
    kernels = (_kernel(length, lost) for length, lost in product(LENGTHS, FORGETTING))
    model = likeliest(x, y, kernels, NOISES)
    new = np.array([point(each, before, at) for each in candidates])
    under_way = np.array([point(pod.hyperparameters, before, at) for pod in pending])
    whole = np.concatenate([x, under_way]) if len(under_way) else x
    wide, _ = process(whole, np.zeros(len(whole)), model.kernel, model.noise)
    width = math.sqrt(max(0.0, C1 * math.log(C2 * len(seen))))
    return np.asarray(model.mean(new) + width * wide.deviation(new))


def _kernel(length: float, lost: float) -> Kernel:
    """The squared exponential in all columns but the last, the time, over which it is forgotten."""

    def kernel(x: Array, other: Array) -> Array:
        apart = distances(x[:, :-1], other[:, :-1]) / length
        time = np.abs(x[:, None, -1] - other[None, :, -1])
        return np.asarray(np.exp(-(apart**2) / 2) * (1.0 - lost) ** (time / 2))

    return kernel

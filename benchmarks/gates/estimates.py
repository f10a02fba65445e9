"""Estimates from a few seeds: the interquartile mean and its bootstrap interval.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(arXiv:2108.13264). Their bootstrap is stratified by task; here every row is one task, so its
seeds are the only stratum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
SEED = 0
"""Of the resampling: equal scores have equal intervals."""


@dataclass(frozen=True)
class Estimate:
    """An interquartile mean and its 95 % interval."""

    iqm: float
    low: float
    high: float


def iqm(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Mean of the middle half: the lowest and the highest n // 4 of n are left out.

    Args:
        scores: numbers [..., n], n at least 1; the last axis is that of the seeds.

    Returns:
        float64 [...].

    Raises:
        ValueError: there is no score.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    count = ordered.shape[-1]
    if count == 0:
        raise ValueError("the interquartile mean of no scores is undefined")
    cut = count // 4
    middle: npt.NDArray[np.float64] = ordered[..., cut : count - cut].mean(axis=-1)
    return middle


def estimate(scores: Sequence[float]) -> Estimate:
    """The interquartile mean with the 2.5 and 97.5 percentiles of those of its resamples.

    Each resample draws as many scores as there are, with replacement. Few seeds make it too
    narrow rather than too wide: a score that no seed had is in no resample.

    Raises:
        ValueError: there is no score.
    """
    middle = float(iqm(scores))
    drawn = np.random.default_rng(SEED).choice(np.asarray(scores), (RESAMPLES, len(scores)))
    low, high = np.quantile(iqm(drawn), [0.025, 0.975])
    return Estimate(middle, float(low), float(high))

"""Gains: what the rounds of a population have gained, and by which hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from hpcpod.config.space import AlgorithmSpace, Choice, LogUniform, Range, Scalar
from hpcpod.records.records import Hyperparameters, PodState
from hpcpod.tournament.statistics import mean


class Gain(NamedTuple):
    """One round of a pod, or several between two evaluations that are kept."""

    hyperparameters: Hyperparameters
    round: int
    before: float
    """The mean return that it began with."""
    gained: float
    """Per round."""


def gains_of(pod: PodState, pods: Mapping[str, PodState]) -> Iterator[Gain]:
    """The gains of a pod's own rounds, as far as its evaluations are kept."""
    points = {each.round: each for each in pod.evaluations if each.round >= pod.parent_round}
    if pod.parent is not None and pod.parent_round not in points:
        points |= {e.round: e for e in pods[pod.parent].evaluations if e.round == pod.parent_round}
    for one, other in pairwise(points[at] for at in sorted(points)):
        start, end = mean(one.returns), mean(other.returns)
        gained = (end - start) / (other.round - one.round)
        yield Gain(pod.hyperparameters, one.round, start, gained)


def unit(space: AlgorithmSpace, name: str, value: Scalar) -> float:
    """A hyperparameter's place in its range, 0 to 1: by logarithms where these are what counts."""
    allowed = space.values[name]
    assert isinstance(allowed, Range)
    if isinstance(allowed, Choice):
        return allowed.values.index(value) / (len(allowed.values) - 1)
    assert isinstance(value, (int, float))
    low, high, own = float(allowed.low), float(allowed.high), float(value)
    if isinstance(allowed, LogUniform):
        low, high, own = math.log(low), math.log(high), math.log(own)
    elif name in space.near_one and high < 1:
        low, high, own = math.log(1 - low), math.log(1 - high), math.log(1 - own)
    return (own - low) / (high - low)

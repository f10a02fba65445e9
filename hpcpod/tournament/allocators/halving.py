"""Halving: each stage of the budget trains half as many pods as the one before.

With a budget in steps or minutes the stages are equal shares of it. N pods pass through
K = ceil(log2 N) halvings; in stage k of K + 1 the best N / 2^k train, by their estimated score. No
pod waits for another at the end of a stage: at each report the best of that moment train. One that
rested comes back if those before it collapse. Successive halving (Jamieson and Talwalkar 2016) by
shares of the budget instead of rungs, so that pods of different speeds compete for hours.

Where only ``stop.rounds`` end the run, it is asynchronous successive halving (Li et al. 2020): at
the rungs of 1, 2, 4, 8 ... rounds a pod goes on if it is among the better half of those that have
been there.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects


class Halving:
    """Successive halving, by shares of the budget or by rounds."""

    def __init__(self, config: PopulationConfig) -> None:
        self._warmup = config.warmup_rounds

    def allocate(self, prospects: Prospects) -> Allocation:
        """Train the best of this stage, the least experienced first; the others rest."""
        if prospects.spent is None:
            return self._by_rungs(prospects)
        ahead = prospects.scored
        places, said = stage(prospects.pods, prospects.spent)
        return divided(prospects, names(ahead[:places]) | always(ahead, self._warmup), said)

    def _by_rungs(self, prospects: Prospects) -> Allocation:
        scored = prospects.scored
        kept = names(scored)
        for rung in rungs(prospects):
            there = [each for each in scored if each.rounds >= rung]
            passing = sorted(there, key=lambda each: (-score_at(each, rung), each.pod))
            kept -= names(passing[math.ceil(len(passing) / 2) :])
        kept |= always(scored, self._warmup)
        return divided(prospects, kept, "it is in the worse half of those at its rung")


def names(candidates: Iterable[Candidate]) -> set[str]:
    """The names of pods."""
    return {each.pod for each in candidates}


def always(candidates: Iterable[Candidate], warmup: int) -> set[str]:
    """Pods that train whatever their rank: the protected, and those that are in their warm-up."""
    return names(each for each in candidates if each.protected or each.rounds <= warmup)


def divided(prospects: Prospects, kept: Container[str], said: str) -> Allocation:
    """The allocation by which some train, the least experienced first, and the others rest; pods
    without a score train."""
    scored = prospects.scored
    training = sorted(
        (each for each in scored if each.pod in kept), key=lambda each: (each.spent, each.pod)
    )
    order = tuple(each.pod for each in (*prospects.unscored, *training))
    resting = {
        each.pod: f"{said}; it is number {place}"
        for place, each in enumerate(scored, start=1)
        if each.pod not in kept
    }
    return Allocation(order, resting)


def stage(pods: int, spent: float) -> tuple[int, str]:
    """The number of pods that train after this share of the budget, and a sentence on it."""
    stages = stage_count(pods)
    number = min(stages - 1, int(spent * stages))
    places = math.ceil(pods / 2**number)
    return places, f"stage {number + 1} of {stages} trains the best {places} of {pods}"


def stage_count(pods: int) -> int:
    """Stages of the budget: one more than halvings."""
    return math.ceil(math.log2(max(1, pods))) + 1


def rungs(prospects: Prospects) -> Iterator[int]:
    """Rounds at which pods are compared: 1, 2, 4, 8 ..., below the last."""
    rung, end = 1, prospects.rounds or 2**30
    farthest = max((each.rounds for each in prospects.scored), default=0)
    while rung <= farthest and rung < end:
        yield rung
        rung *= 2


def score_at(candidate: Candidate, rung: int) -> float:
    """A pod's mean at a rung: of the last evaluation that it has from there or before."""
    return [point.mean for point in candidate.curve if point.round <= rung][-1:][0]

"""Replicates: halving, and what is left of the budget trains the best again with other seeds.

One training says little of its hyperparameters: with another seed they may lead to a policy that is
far worse, and the best of many trainings is mostly a lucky one (Eimer, Lindauer and Raileanu 2023).
Where ``stop.rounds`` ends a pod's training and a budget is left, the best configurations of each
stage (see ``halving``) that have trained all their rounds are trained again from scratch, in places
of pods that rest. They are ranked by their mean over seeds, shrunk (``scores.posterior``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.allocators.halving import Halving, always, divided, names, stage
from hpcpod.tournament.scores import posterior
from hpcpod.tournament.statistics import mean, sd

MOST = 6
"""Trainings of one configuration: the error of its mean falls slowly after that."""
PRIOR = 2.0
"""Trainings' worth of weight that all configurations' variance has beside a configuration's own."""


@dataclass(frozen=True)
class Configuration:
    """A set of hyperparameters, and the living pods that were trained with it from scratch."""

    first: str
    """The pod that had it first; it may be gone."""
    living: str
    """One that lives."""
    trained: int
    """Pods that have trained all their rounds."""
    going: tuple[Candidate, ...]
    """Pods that have a round to train, and a score."""
    mean: float
    """Of the scores of those that are done; else of the farthest one."""
    estimate: float
    """The mean over all seeds that there could be, shrunk towards other configurations'."""


class Replicates:
    """Halving over configurations; those that are done are trained again."""

    def __init__(self, config: PopulationConfig) -> None:
        self._halving = Halving(config)
        self._warmup = config.warmup_rounds

    def allocate(self, prospects: Prospects) -> Allocation:
        """Train the best configurations of this stage; it is halving without a budget, or an end
        of each pod's training."""
        if prospects.spent is None or prospects.rounds is None:
            return self._halving.allocate(prospects)
        places, said = stage(prospects.pods, prospects.spent)
        kept: set[str] = set()
        wanted: list[str] = []
        ranking = configurations(prospects)
        for each in ranking:
            if len(wanted) + len(kept) >= places:
                break
            if each.going:
                kept |= names(each.going)
            elif each.trained < MOST:
                wanted.append(each.living)
        kept |= always(prospects.scored, self._warmup)
        wanted = wanted[: _room(prospects, kept)]
        again = dict(zip(_spare(prospects, kept, ranking), wanted, strict=False))
        if not (kept or again or prospects.unscored):
            kept = names(prospects.scored[:1])
        found = divided(prospects, kept, said)
        resting = {pod: why for pod, why in found.resting.items() if pod not in again}
        return Allocation(found.order, resting, again=again)


def _spare(prospects: Prospects, kept: set[str], ranking: Sequence[Configuration]) -> Iterator[str]:
    """Pods whose place another may take: the worst of those that rest already, and so have no slot;
    then of the others that are not kept; then the worse half of the configurations that are done.
    """
    idle = [e for e in prospects.scored[::-1] if e.pod not in kept and not e.repeats]
    yield from (each.pod for each in sorted(idle, key=lambda each: not each.rests))
    for each in ranking[: math.ceil(len(ranking) / 2) - 1 : -1]:
        if not each.going:
            ended = (e for e in prospects.done if (e.repeats or e.pod) == each.first)
            yield from (e.pod for e in ended if not e.protected)


def configurations(prospects: Prospects) -> list[Configuration]:
    """Configurations with a score, the best estimate first."""
    groups: dict[str, list[Candidate]] = {}
    done = {each.pod for each in prospects.done}
    for each in (*prospects.done, *prospects.candidates):
        if each.score is not None:
            groups.setdefault(each.repeats or each.pod, []).append(each)
    if not groups:
        return []
    scores = {name: _scores(pods, done) for name, pods in groups.items()}
    estimates = over_seeds(list(scores.values()))
    found = [
        Configuration(
            name,
            groups[name][0].pod,
            sum(each.pod in done for each in groups[name]),
            tuple(each for each in groups[name] if each.pod not in done),
            mean(scores[name]),
            estimate,
        )
        for name, estimate in zip(groups, estimates, strict=True)
    ]
    return sorted(found, key=lambda each: (-each.estimate, -each.mean, each.first))


def _scores(pods: list[Candidate], done: set[str]) -> list[float]:
    """The scores of a configuration's trainings that are done; else of the farthest one."""
    ended = [each for each in pods if each.pod in done]
    counted = ended or [max(pods, key=lambda each: (each.rounds, each.pod))]
    return [each.score for each in counted if each.score is not None]


def over_seeds(scores: list[list[float]]) -> list[float]:
    """The estimated mean of each configuration over all seeds.

    The variance of a configuration's scores over seeds is the mean of its own and that of all,
    weighted by their degrees of freedom and ``PRIOR``. While none has two trainings it is unknown,
    and nothing is shrunk.
    """
    squares = [sd(each) ** 2 * (len(each) - 1) for each in scores]
    freedom = [len(each) - 1 for each in scores]
    common = sum(squares) / sum(freedom) if sum(freedom) else 0.0
    errors = [
        (PRIOR * common + own) / (PRIOR + free) / (free + 1)
        for own, free in zip(squares, freedom, strict=True)
    ]
    found = posterior([mean(each) for each in scores], np.diag(errors), draws=1)
    return [float(value) for value in found.means]


def _room(prospects: Prospects, kept: set[str]) -> int:
    """The number of whole trainings that the rest of the budget has room for, beside those of the
    pods that are kept."""
    every = [*prospects.scored, *prospects.done]
    per_round = sum(each.spent for each in every) / max(1, sum(each.rounds for each in every))
    whole = per_round * (prospects.rounds or 0)
    if prospects.left is None or whole <= 0:
        return sys.maxsize
    if prospects.axis == "seconds":  # slots train beside each other
        return sys.maxsize if prospects.left >= whole else 0
    reserved = sum(whole - each.spent for each in prospects.scored if each.pod in kept)
    return max(0, int((prospects.left - reserved) / whole))

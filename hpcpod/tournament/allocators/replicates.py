"""Replicates: half of the budget screens the population, the rest trains the best with more seeds.

One training says little of its hyperparameters: with another seed they may lead to a policy that is
far worse, and the best of many trainings is mostly a lucky one (Eimer, Lindauer and Raileanu 2023).
So where ``stop.rounds`` ends a pod's training and the run has a budget, this is successive halving
over configurations and seeds: half of the budget is shared equally; then the best quarter of the
configurations are trained to the end, half as many with a second seed, half as many of those with
four seeds, and so on (``ladder``). Another seed begins from scratch in the place of a pod that
rests. A training counts by its last scores, not the very last one, and configurations are ranked by
their mean over seeds, shrunk (``scores.posterior``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.allocators.halving import Halving, always, divided, names
from hpcpod.tournament.scores import posterior
from hpcpod.tournament.statistics import mean, sd

SCREENING = 0.5
"""Share of the budget that all configurations' first trainings have, each the same part."""
QUARTER = 4
"""Of the configurations this part is trained to the end after that."""
RIVALS = 2
"""Configurations that are trained with another seed at least: one alone is compared with none."""
ENDING = 5
"""Scores by which a training counts, from the second half of its rounds."""
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
    """Pods that have a round to train."""
    mean: float
    """Of the scores of those that are done; else of the farthest one."""
    estimate: float
    """The mean over all seeds that there could be, shrunk towards other configurations'."""
    error: float | None
    """Standard deviation of that mean about the estimate; None while none has two trainings."""
    sd: float | None
    """Standard deviation of its trainings' scores; None of fewer than two that are done."""


class Replicates:
    """Halving over configurations; those that are done are trained again."""

    def __init__(self, config: PopulationConfig) -> None:
        self._halving = Halving(config)
        self._warmup = config.warmup_rounds

    def allocate(self, prospects: Prospects) -> Allocation:
        """Train the pods of the first rung that is not climbed; it is halving without a budget, or
        an end of each pod's training."""
        if prospects.spent is None or prospects.rounds is None:
            return self._halving.allocate(prospects)
        ranking = configurations(prospects)
        kept, wanted, said = names(prospects.scored), list[str](), "all are screened first"
        if prospects.spent >= SCREENING or all(each.repeats for each in prospects.scored):
            kept, wanted, said = _climbing(prospects, ranking)
        kept |= always(prospects.scored, self._warmup)
        again = dict(zip(_spare(prospects, kept, ranking), wanted, strict=False))
        if not (kept or again or prospects.unscored):
            kept = names(prospects.scored[:1])
        found = divided(prospects, kept, said)
        resting = {pod: why for pod, why in found.resting.items() if pod not in again}
        return Allocation(found.order, resting, again=again)


def ladder(places: int) -> Iterator[tuple[int, int]]:
    """Rungs, in the order in which they are climbed: a number of configurations, the best of those
    on the rung before, and of seeds with which each is trained to the end. Where there is budget
    left after the last rung, twice as many climb them."""
    width, steps = math.ceil(places / QUARTER), MOST.bit_length()
    while True:
        for step in range(steps + 1):
            best = max(RIVALS, math.ceil(width / 2**step))
            yield min(places, best), min(MOST, 2**step)
        if width >= places * 2**steps:
            return
        width *= 2


def _climbing(
    prospects: Prospects, ranking: Sequence[Configuration]
) -> tuple[set[str], list[str], str]:
    """The pods to train, pods whose configurations begin with another seed, and a sentence.

    A rung takes the best of those on the one before: where any rose that was ahead for a moment,
    half of the trainings went to configurations that the ladder has no place for. So one that was
    chosen counts though it falls behind as many others; one that is farther behind was never
    chosen: its last round was under way when it was to rest.
    """
    before = 0
    for number, trainings in ladder(prospects.pods):
        missing = number - sum(each.trained >= trainings for each in ranking[: 2 * number])
        able = [each for each in ranking if before <= each.trained < trainings]
        climbers = able[: max(0, missing)]
        kept = {name for each in climbers for name in names(each.going)}
        wanted = [
            each.living
            for each in climbers
            for _ in range(trainings - each.trained - len(each.going))
        ][: _room(prospects, kept)]
        if kept or wanted:
            times = "to the end" if trainings == 1 else f"with {trainings} seeds"
            return kept, wanted, f"{number} of {prospects.pods} are trained {times}"
        before = trainings % MOST  # 0 after the last rung of a ladder
    return set(), [], "no other seed can be trained in what is left"


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
    # of a run that has ended no pod has a round to train, those neither that rested half-way
    every, end = (*prospects.done, *prospects.candidates), prospects.rounds or 0
    done = {each.pod for each in every if each.rounds >= end}
    for each in every:
        groups.setdefault(each.repeats or each.pod, []).append(each)
    groups = {name: pods for name, pods in groups.items() if any(each.curve for each in pods)}
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
            *estimate,
            sd(scores[name]) if len(scores[name]) > 1 else None,
        )
        for name, estimate in zip(groups, estimates, strict=True)
    ]
    return sorted(found, key=lambda each: (-each.estimate, -each.mean, each.first))


def _scores(pods: list[Candidate], done: set[str]) -> list[float]:
    """The scores of a configuration's trainings that are done; else of the farthest one."""
    ended = [each for each in pods if each.pod in done]
    return [ending(each) for each in ended or [max(pods, key=lambda e: (e.rounds, e.pod))]]


def ending(candidate: Candidate) -> float:
    """The mean of the last scores of a training: of the second half of its rounds, and of the last
    ``ENDING`` at most."""
    half = candidate.rounds / 2
    return mean([point.mean for point in candidate.curve[-ENDING:] if point.round > half])


def over_seeds(scores: list[list[float]]) -> list[tuple[float, float | None]]:
    """The estimated mean of each configuration over all seeds, and its error.

    The variance of a configuration's scores over seeds is the mean of its own and that of all,
    weighted by their degrees of freedom and ``PRIOR``. While none has two trainings it is unknown,
    nothing is shrunk, and the errors are None.
    """
    squares = [sd(each) ** 2 * (len(each) - 1) for each in scores]
    freedom = [len(each) - 1 for each in scores]
    common = sum(squares) / sum(freedom) if sum(freedom) else 0.0
    errors = [
        (PRIOR * common + own) / (PRIOR + free) / (free + 1)
        for own, free in zip(squares, freedom, strict=True)
    ]
    found = posterior([mean(each) for each in scores], np.diag(errors), draws=1)
    known = sum(freedom) > 0
    pairs = zip(found.means, found.errors, strict=True)
    return [(float(value), float(error) if known else None) for value, error in pairs]


def _room(prospects: Prospects, kept: set[str]) -> int:
    """The number of whole trainings that the rest of the budget has room for, beside those of the
    pods that are kept."""
    every = [*prospects.scored, *prospects.done]
    per_round = sum(each.spent for each in every) / max(1, sum(each.rounds for each in every))
    whole = per_round * (prospects.rounds or 0)
    if prospects.left is None or whole <= 0:
        return sys.maxsize
    reserved = sum(whole - each.spent for each in prospects.candidates if each.pod in kept)
    if prospects.axis == "env_steps":
        return max(0, int((prospects.left - reserved) / whole))
    if prospects.left < whole:
        return 0
    # Slots train beside each other, and what is too much for one is left half done by all.
    return max(0 if kept else 1, int((prospects.left * (prospects.slots or 1) - reserved) / whole))

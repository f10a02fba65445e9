"""PB2: copies with hyperparameters from a time-varying Gaussian-process bandit.

Population-based bandits (Parker-Holder, Nguyen and Roberts 2020, arXiv 2002.02518) model how much a
round gained, by hyperparameters, score before it and time, and give a copy those hyperparameters
whose upper confidence bound is highest. In plain numpy: a population has some hundred rounds to
learn from, for which no library is needed.
"""

from __future__ import annotations

from random import Random
from weakref import WeakKeyDictionary

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.bandit import Bandit
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.mutation import mutate, sample
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.statistics import mean

DRAWN, MOVED = 256, 64
"""Candidates of a copy's hyperparameters: draws from the ranges, and mutations of the parent's."""


class PB2(GentleTruncation):
    """Gentle truncation whose copies get what a model of the gains so far holds most of.

    The kernel is k(x, x') (1 - w)^(|t - t'| / 2), with k the squared exponential of hyperparameters
    in their ranges and of the score before, and t the round. Rounds in progress count as seen where
    the bound's width is concerned, so that copies differ. Structural and initial hyperparameters
    are the parent's. With few rounds to learn from a copy is mutated as by ``gentle_truncation``.

    It is for ranges whose effect shows within a round: what pays later it does not see.
    """

    def __init__(self, config: PopulationConfig) -> None:
        super().__init__(config)
        self._models: WeakKeyDictionary[Cohorts, dict[str, Bandit | None]] = WeakKeyDictionary()
        """Of each merge, by algorithm: all its copies ask the same one."""

    def copy(self, cohorts: Cohorts, parent: str, at: int, evidence: str, rng: Random) -> Copy:
        """A copy with the hyperparameters of the highest bound."""
        pod = cohorts.board.pods[parent]
        space = cohorts.algorithms[pod.algorithm]
        models = self._models.setdefault(cohorts, {})
        if pod.algorithm not in models:
            models[pod.algorithm] = Bandit.of(cohorts, pod.algorithm)
        model = models[pod.algorithm]
        if model is None:
            return super().copy(cohorts, parent, at, evidence, rng)
        candidates = [mutate(space, pod.hyperparameters, rng)[0] for _ in range(MOVED)]
        for _ in range(DRAWN):
            drawn = sample(space, rng)
            moved = {name: drawn[name] for name in space.mutable}
            candidates.append({**pod.hyperparameters, **moved})
        known = (each for each in reversed(pod.evaluations) if each.round <= at)
        score = next(known, pod.best)
        before = None if score is None else mean(score.returns)
        chosen = candidates[int(model.bounds(candidates, at, before).argmax())]
        changed = (n for n in sorted(space.mutable) if chosen[n] != pod.hyperparameters[n])
        return Copy(parent, at, chosen, tuple(changed), evidence)

"""The population as one merge sees it: who lives, and how they did at equal experience.

A *cohort* is the living pods that were evaluated at the same round, so on the same seeds and
after the same number of environment steps. Nobody waits for it: a pod that reports early is
compared one report later, when the others have been there too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from hpcpod.config.schema import PopulationConfig, RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records import Board, Evaluation, PodState
from hpcpod.tournament.prospects import asleep
from hpcpod.tournament.scores import mean

HOPELESS = 3
"""An algorithm is given up after this many deaths per place, if none of its pods has ever
finished a round."""


@dataclass(frozen=True)
class Cohort:
    """Pods that were evaluated at the same round."""

    round: int
    evaluations: Mapping[str, Evaluation]
    """By pod: the living."""
    means: Mapping[str, float]
    best: tuple[str, ...]
    """The best 30 % by mean return, at least one, best first: who may be copied."""
    worst: frozenset[str]
    """The worst eighth of those that may be replaced at all."""
    places: int
    """How many may be replaced by a copy at this round: ceil(n / 8)."""


class Census:
    """A board with all reports of a merge applied, and what judgements and births ask of it.

    Cohorts stay as they were when the reports were in; ``living``, ``members`` and ``copies``
    follow the births of the merge.
    """

    def __init__(
        self, board: Board, config: RunConfig, algorithms: Mapping[str, AlgorithmSpace]
    ) -> None:
        self.board = board
        self.config = config
        self.algorithms = algorithms
        self.living: dict[str, PodState] = {pod.id: pod for pod in board.living}
        self.members = Counter(pod.algorithm for pod in self.living.values())
        """Living pods of each algorithm."""
        self.copies = Counter(
            pod.parent_round
            for pod in board.pods.values()
            if pod.replaces is not None and board.pods[pod.replaces].fate == "replaced"
        )
        """Pods replaced by a copy of each round."""
        self._population = len(self.living) - len(asleep(board))
        self._rounds: dict[int, dict[str, Evaluation]] = {}
        for pod in self.living.values():
            for evaluation in pod.history:
                self._rounds.setdefault(evaluation.round, {})[pod.id] = evaluation
        self._cohorts: dict[int, Cohort] = {}
        self._quotas = quotas(config.population)
        self._trained = {pod.algorithm for pod in board.pods.values() if pod.trained_steps > 0}
        self._deaths = Counter(p.algorithm for p in board.pods.values() if p.fate == "failed")

    def due(self, pod: PodState) -> int | None:
        """The latest round at which a pod can be compared with its cohort and has not been.

        More than half of the living pods, and at least two, must have been evaluated there.
        """
        after = max(pod.judged, self.config.population.warmup_rounds)
        rounds = (evaluation.round for evaluation in pod.history)
        return max((r for r in rounds if r > after and self._quorum(r)), default=None)

    def latest(self) -> Cohort | None:
        """The cohort of the latest round that has a quorum and is worth copying.

        It is past the warm-up, and leaves a copy something to train.
        """
        first, end = self.config.population.warmup_rounds + 1, self.config.stop.rounds
        rounds = (r for r in self._rounds if r >= first and (end is None or r < end))
        newest = max(filter(self._quorum, rounds), default=None)
        return None if newest is None else self.cohort(newest)

    def cohort(self, round_number: int) -> Cohort:
        """The living pods that were evaluated at a round."""
        if round_number not in self._cohorts:
            self._cohorts[round_number] = self._gather(round_number)
        return self._cohorts[round_number]

    def spare(self, pod: PodState) -> bool:
        """Whether a pod may be replaced: no control, and not the last of its algorithm."""
        return not pod.control and self.members[pod.algorithm] > 1

    def hopeful(self) -> list[str]:
        """Algorithms worth another fresh pod, those farthest below their quota first."""
        hopeful = [name for name in self._quotas if not self._hopeless(name)]
        return sorted(hopeful, key=lambda name: self.members[name] - self._quotas[name])

    def succeed(self, old: PodState, child: PodState) -> None:
        """Note that a child has taken a pod's place."""
        if self.living.pop(old.id, None) is not None:
            self.members[old.algorithm] -= 1
            self.copies[child.parent_round] += 1
        self.members[child.algorithm] += 1

    def _hopeless(self, algorithm: str) -> bool:
        """Whether an algorithm's pods only ever fail."""
        tolerated = HOPELESS * self._quotas[algorithm]
        return algorithm not in self._trained and self._deaths[algorithm] > tolerated

    def _quorum(self, round_number: int) -> bool:
        return len(self._rounds[round_number]) > max(1, self._population // 2)

    def _gather(self, round_number: int) -> Cohort:
        evaluations = self._rounds[round_number]
        means = {pod: mean(evaluation.returns) for pod, evaluation in evaluations.items()}
        ranked = sorted(means, key=lambda pod: (-means[pod], pod))
        spare = [pod for pod in ranked if self.spare(self.board.pods[pod])]
        eighth = ceil(len(ranked) / 8)
        return Cohort(
            round_number,
            evaluations,
            means,
            best=tuple(ranked[: max(1, len(ranked) * 3 // 10)]),
            worst=frozenset(spare[-eighth:]),
            places=ceil((len(ranked) + self.copies[round_number]) / 8),
        )


def quotas(population: PopulationConfig) -> dict[str, int]:
    """Places of each algorithm: its share by largest remainder, and at least one."""
    total = population.pods.max
    whole = sum(population.algorithms.values())
    ideal = {name: total * share / whole for name, share in population.algorithms.items()}
    quota = {name: max(1, int(exact)) for name, exact in ideal.items()}
    while (unfilled := total - sum(quota.values())) != 0:
        if unfilled > 0:
            quota[max(quota, key=lambda name: ideal[name] - quota[name])] += 1
        else:
            several = [name for name in quota if quota[name] > 1]
            quota[max(several, key=lambda name: quota[name] - ideal[name])] -= 1
    return quota

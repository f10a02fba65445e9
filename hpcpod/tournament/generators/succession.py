"""The shared part of generators: founders, copies, and the successors of the dead."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random

from hpcpod.config.schema import PopulationConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Entry, Hyperparameters, PodState
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.mutation import mutate, sample
from hpcpod.tournament.proposals import Copy, Fresh

CONTROL_TRIES = 3
"""Controls of one algorithm that may fail; the place of the last goes to an ordinary pod."""


class Succession:
    """Founders are drawn from their ranges, and copies are mutated.

    A pod that failed is replaced by a copy of a leader; if it was the last of its algorithm, or no
    leader lives, by a copy of that algorithm's best row of the leaderboard; where there is none, as
    during the warm-up, by a fresh pod, which is a control if the dead one was.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        """A draw from every range; a control has the agent's defaults."""
        return space.unmutated() if control else sample(space, Random(key))

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        """A copy of a leader or of a row of the leaderboard, or a fresh pod: see the class."""
        rng = Random(key)
        evidence = because(dead)
        algorithm = cohorts.heir(dead.algorithm)
        cohort = cohorts.latest()
        last = cohorts.members[algorithm] == 0
        leaders = donors(cohorts, cohort, cohorts.living.keys()) if cohort else []
        if leaders and not last:  # a copy may be of another algorithm
            return self.copy(cohorts, *rng.choice(leaders), evidence, rng)
        for row in listed(cohorts, algorithm):
            return self.copy(cohorts, row.pod, row.round, evidence, rng)
        return self.fresh(cohorts, algorithm, dead, evidence, key)

    def copy(self, cohorts: Cohorts, parent: str, at: int, evidence: str, rng: Random) -> Copy:
        """A copy of a pod at one of its rounds, with mutated hyperparameters."""
        pod = cohorts.board.pods[parent]
        space = cohorts.algorithms[pod.algorithm]
        hyperparameters, mutated = mutate(space, pod.hyperparameters, rng)
        return Copy(parent, at, hyperparameters, mutated, evidence)

    def fresh(
        self, cohorts: Cohorts, algorithm: str, old: PodState, evidence: str, key: int
    ) -> Fresh:
        """A fresh pod in the place of an old one."""
        tried = sum(
            pod.control and pod.fate == "failed" and pod.algorithm == algorithm
            for pod in cohorts.board.pods.values()
        )
        control = old.control and algorithm == old.algorithm and tried < CONTROL_TRIES
        founded = self.founder(cohorts.algorithms[algorithm], control, key)
        return Fresh(algorithm, founded, control, evidence)


def selected(cohorts: Cohorts, pod: PodState) -> int:
    """The round at which a pod was compared before this merge, or made as a copy."""
    before = cohorts.board.pods[pod.id]
    return max(before.judged, before.parent_round)


def because(dead: PodState) -> str:
    """The evidence for the successor of a pod that has failed."""
    return f"in place of {dead.id}, which failed: {dead.fate_reason}"


def donors(cohorts: Cohorts, cohort: Cohort, able: Collection[str]) -> list[tuple[str, int]]:
    """Those leaders of a cohort, with the round to copy, whose copy has something to train."""
    return [
        (pod, at)
        for pod in cohort.best
        if pod in able and (at := round_of(cohorts, cohort, pod)) is not None
    ]


def round_of(cohorts: Cohorts, cohort: Cohort, pod: str) -> int | None:
    """The round at which a living pod of a cohort is copied; None if that can't be, or if its copy
    had nothing to train."""
    source = cohorts.source(pod, cohort.standings[pod])
    end = cohorts.config.stop.rounds
    return None if source is None or (end is not None and source.round >= end) else source.round


def listed(cohorts: Cohorts, algorithm: str) -> Iterator[Entry]:
    """Rows of the leaderboard that a copy may be made of, of one algorithm, the best first.

    They are past the warm-up, and a copy has something to train.
    """
    end, warmup = cohorts.config.stop.rounds, cohorts.config.population.warmup_rounds
    for row in cohorts.rows(algorithm):
        if warmup < row.round and (end is None or row.round < end):
            yield row

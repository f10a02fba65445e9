"""Generators: decide which pod a copy replaces, and propose the next pod."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Protocol

from hpcpod.config.schema import PopulationConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Hyperparameters, PodState, Verdict
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.mutation import mutate, sample, unmutated

CONTROL_TRIES = 3
"""Controls of one algorithm that may fail; the place of the last goes to an ordinary pod."""


@dataclass(frozen=True)
class Fresh:
    """A pod that starts from scratch."""

    algorithm: str
    hyperparameters: Hyperparameters
    control: bool = False
    evidence: str = ""
    repeats: str | None = None
    """The pod whose training it repeats with another seed."""


@dataclass(frozen=True)
class Copy:
    """A pod that starts from another's checkpoint: same family, other hyperparameters."""

    parent: str
    round: int
    """The parent's round whose checkpoint is copied."""
    hyperparameters: Hyperparameters
    mutated: tuple[str, ...]
    evidence: str


class Generator(Protocol):
    """Decides every birth. Pure: the same cohorts and key, the same decision.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        """With what a pod of the first generation starts."""

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """The copy that takes the place of a pod that has reported; None if it trains on."""

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        """The successor of a pod that has failed; some algorithm is hopeful."""


class GentleTruncation:
    """Few copies, each with a reason.

    Of a cohort, only the worst eighth may be replaced, and at most ceil(n / 8) of an algorithm's
    n pods per round. The parent is drawn from the best 30 %, and must have beaten the pod by the
    updater's verdict. A control is never replaced, nor is the last pod of an algorithm. The
    child is of its parent's family always; its other hyperparameters are mutated.

    A pod that failed is replaced by a copy of a leader; during the warm-up, and if it was the
    last of its algorithm, by a fresh pod, which is a control if the dead one was.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        """A draw from every range; a control has the agent's defaults."""
        return unmutated(space) if control else sample(space, Random(key))

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """A copy of a leader that beat this pod, if it is among the worst and may be replaced."""
        if not verdict.beaten_by or not cohorts.spare(pod):
            return None
        cohort = cohorts.cohort(pod.algorithm, verdict.round)
        taken = cohorts.copies[pod.algorithm, verdict.round]
        if pod.id not in cohort.worst or taken >= cohort.places:
            return None
        able = (cohorts.living.keys() & set(verdict.beaten_by)) - {pod.id}
        donors = _donors(cohorts, cohort, able)
        if not donors:
            return None
        rng = Random(key)
        parent, source = rng.choice(donors)
        return _copy(cohorts, parent, source, verdict.evidence.get(parent, ""), rng)

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        """A copy of a leader, or a fresh pod: see the class."""
        rng = Random(key)
        evidence = f"in place of {dead.id}, which failed: {dead.fate_reason}"
        hopeful = cohorts.hopeful()
        algorithm = dead.algorithm if dead.algorithm in hopeful else hopeful[0]
        cohort = cohorts.latest()
        last = cohorts.members[algorithm] == 0
        donors = _donors(cohorts, cohort, cohorts.living.keys()) if cohort else []
        if donors and not last:  # a copy may be of another algorithm
            return _copy(cohorts, *rng.choice(donors), evidence, rng)
        tried = sum(
            pod.control and pod.fate == "failed" and pod.algorithm == algorithm
            for pod in cohorts.board.pods.values()
        )
        control = dead.control and algorithm == dead.algorithm and tried < CONTROL_TRIES
        founded = self.founder(cohorts.algorithms[algorithm], control, key)
        return Fresh(algorithm, founded, control, evidence)


def _copy(cohorts: Cohorts, parent: str, at: int, evidence: str, rng: Random) -> Copy:
    pod = cohorts.living[parent]
    hyperparameters, mutated = mutate(cohorts.algorithms[pod.algorithm], pod.hyperparameters, rng)
    return Copy(parent, at, hyperparameters, mutated, evidence)


def _donors(cohorts: Cohorts, cohort: Cohort, able: Collection[str]) -> list[tuple[str, int]]:
    """Those leaders of a cohort, with the round to copy, whose copy has something to train."""
    end = cohorts.config.stop.rounds
    return [
        (pod, source.round)
        for pod in cohort.best
        if pod in able
        and (source := cohorts.source(pod, cohort.standings[pod])) is not None
        and (end is None or source.round < end)
    ]

"""Proposals of a generator, and the protocol by which it is asked for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Hyperparameters, PodState, Verdict
from hpcpod.tournament.cohorts import Cohorts


@dataclass(frozen=True)
class Fresh:
    """A pod that starts from scratch."""

    algorithm: str
    hyperparameters: Hyperparameters
    control: bool = False
    evidence: str = ""
    repeats: str | None = None
    """The pod whose training it repeats with another seed."""
    share: float | None = None
    """See ``PodState.share``; None: the run's first share."""
    restart: bool = False
    """True if it is born in a restart of the population: see ``PodState.restarts``."""


@dataclass(frozen=True)
class Copy:
    """A pod that starts from another's checkpoint: same family, other hyperparameters."""

    parent: str
    """A pod that lives, or one on the leaderboard, alive or dead."""
    round: int
    """The parent's round whose checkpoint is copied: one of its last evaluations, or its best."""
    hyperparameters: Hyperparameters
    mutated: tuple[str, ...]
    evidence: str
    restart: bool = False
    """As for ``Fresh``. Its weights are shrunk and perturbed before its first step; see
    ``agents.shrink_perturb``."""


class Generator(Protocol):
    """Decides every birth. Pure: the same cohorts and key, the same decision.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        """With what a pod of the first generation starts."""

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Copy | Fresh | None:
        """The pod that takes the place of one that has reported; None if that one trains on.

        ``pod.judged`` is the round of this verdict already; ``cohorts.board.pods`` has it as it was
        before.
        """

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        """The successor of a pod that has failed; some algorithm is hopeful."""

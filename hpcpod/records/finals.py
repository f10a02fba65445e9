"""The final evaluation on a board: the finalists, the candidates, and what is delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcpod.config.space import Scalar
from hpcpod.records.checkpoints import Checkpoint

Stage = Literal["", "select", "confirm", "report"]
"""The set of seeds that is being played; empty before the first, and of boards from before there
were three."""


@dataclass(frozen=True)
class Member:
    """A finalist's policy."""

    pod: str
    round: int
    """The round of the pod that ended in this policy."""
    algorithm: str
    hyperparameters: Mapping[str, Scalar]
    checkpoint: Checkpoint


@dataclass(frozen=True)
class Candidate:
    """A policy that may be delivered: the best finalist's, or an ensemble of several."""

    members: tuple[Member, ...]
    """Best first."""
    rule: str = ""
    """The way in which members' actions become one; empty of a single policy."""
    returns: tuple[float, ...] = ()
    """On the confirm set, the same seeds for every candidate; empty while it has no score."""
    failure: str = ""
    """Empty, or why it could not be scored, in one sentence."""


@dataclass(frozen=True)
class Trial:
    """The paired test of an ensemble against the best single policy."""

    candidate: int
    """The ensemble's place among the candidates."""
    mean: float
    """Mean return of the ensemble less that of the single policy."""
    low: float
    """One-sided lower bound of this difference; above 0 the ensemble is shown to be better."""
    level: float
    """Error level of the bound: that of the gate, shared out among the ensembles."""
    episodes: int
    """Episodes of each, on the same seeds."""


@dataclass(frozen=True)
class Finals:
    """The state of a final evaluation."""

    stage: Stage = ""
    sets: Mapping[str, int] = field(default_factory=dict)
    """Sets of seeds that the run has used up, by purpose of their orders: ``final`` (the batches of
    the select set), ``candidate`` (the confirm set), ``report``. So many numbers, from 0."""
    batches: tuple[int, ...] = ()
    """Numbers of the batches of this select set, in order."""
    finalists: tuple[Member, ...] = ()
    """The leaderboard's first rows when training ended."""
    returns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Returns of each finalist on the select set, in the order of the seeds, by pod."""
    played: Mapping[str, int] = field(default_factory=dict)
    """Batches that these are of, by pod."""
    told: Mapping[str, int] = field(default_factory=dict)
    """Episodes of the scores that a program gives, where they are others than these, by pod."""
    engine: str = ""
    """The simulator that played the select set, and its version."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Finalists that could not be scored any more, and why, by pod."""
    candidates: tuple[Candidate, ...] = ()
    """Policies that may be delivered, the best single one first."""
    first: int = 0
    """The number of the first one's order; the others' follow."""
    trials: tuple[Trial, ...] = ()
    delivered: int | None = None
    """The place of what is delivered among the candidates, once that is decided."""
    verdict: str = ""
    """Empty, or why that one is delivered, in one sentence."""

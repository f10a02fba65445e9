"""Decisions of a tournament's rules, kept as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DecisionKind = Literal[
    "comparison", "look", "birth", "rest", "train", "give up", "refusal", "barrier"
]


@dataclass(frozen=True)
class PairTest:
    """A test of a pod against one rival: whether the rival's returns are higher."""

    rival: str
    mean: float
    """Mean return of the rival less that of the pod."""
    low: float
    """One-sided lower bound of this difference; above 0 the rival has beaten the pod."""
    level: float
    """Error level of the bound, such as 0.05."""
    episodes: int
    """Episodes of each."""
    paired: bool
    """The episodes of both began with the same seeds."""


@dataclass(frozen=True)
class Verdict:
    """The updater's verdict on a report."""

    admit: bool
    """The report's evaluation belongs on the leaderboard."""
    round: int = 0
    """The round at which the pod was compared with its cohort; 0 if it was not."""
    beaten_by: tuple[str, ...] = ()
    """Pods that beat this one at equal experience, by the updater's test."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Per beater, the numbers of the test in words."""
    place: int = 0
    """Place of the pod in its cohort, the best has 1; 0 if it was not compared."""
    among: int = 0
    """Pods of its cohort, itself included."""
    tests: tuple[PairTest, ...] = ()
    """Tests that were made, whatever they found."""


@dataclass(frozen=True)
class Decision:
    """One decision: about whom, by which rule, with which numbers, and its outcome in words."""

    kind: DecisionKind
    """``comparison``: an updater judged a round. ``look``: it came close, and further episodes will
    tell. ``birth``: a generator made a pod. ``rest``,
    ``train`` and ``give up``: an allocator let a pod rest, train again, or end. ``refusal``: what
    a rule decided can't be done, and the built-in rule's decision took its place. ``barrier``: one
    has opened."""
    pod: str
    """The pod that it is about; of a birth the child; empty if it is about all."""
    rule: str
    """The name or dotted path of the updater, generator or allocator that made it, or whose answer
    is refused; of a barrier the scheme."""
    outcome: str
    """The decision and its reason, in one sentence."""
    time: float
    """Unix time of the merge, in seconds."""
    rounds: int
    """Rounds that all pods together had finished."""
    round: int = 0
    """The pod's round that was compared, or from which it was copied; a barrier's round; else 0."""
    others: tuple[str, ...] = ()
    """Pods that it was compared with, or copied from and put in place of; of a barrier those it
    opened without."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers by name: ``place`` and ``among`` of a comparison, ``spent`` (share of the budget),
    ``score`` and ``rounds`` (the pod's own) of an allocation, ``there``, ``missing`` and
    ``seconds`` (since the one before) of a barrier; ``mean`` and ``low`` of the test that a look
    is at, as in ``PairTest``."""
    tests: tuple[PairTest, ...] = ()
    """Tests of a comparison."""

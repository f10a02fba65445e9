"""Streams: a task's side of continuous training, a plugin of the group ``hpcpod.streams``.

A stream says whether there is news, which data a cycle trains on and judges on, and how two
policies compare on the latter. It is made with the configuration, and asked anew in each cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from hpcpod.config.schema import EnvConfig
from hpcpod.errors import UserError

if TYPE_CHECKING:
    from hpcpod.tournament.continuous.drift import Sample

Part = Literal["train", "judge"]


class NotComparable(UserError):
    """Two policies can't be compared on what a cycle judges on, now or later: the cycle fails."""


@dataclass(frozen=True)
class Windows:
    """The data of a cycle."""

    train: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the environment, laid over the configuration's: what the cycle trains on."""
    judge: Mapping[str, object] = field(default_factory=dict)
    """Arguments laid over those of each policy's own environment: what it is judged on."""
    seed: int = 0
    """The first seed of what is judged."""
    words: str = ""
    """Both in words."""
    end: str = ""
    """The first date that this cycle does not look at; empty of a task without dates."""
    digest: str = ""
    """SHA-256 of all data that the cycle looks at; empty of a task without any."""
    source: Mapping[str, object] = field(default_factory=dict)
    """The origin of the data, for the card."""
    past: int = 0
    """The first seed behind those of what is judged: a later cycle goes on from it."""


class Look(NamedTuple):
    """A look at the data."""

    windows: Windows | None
    """Of a cycle that would begin now; None: there is too little that is new to judge on."""
    due: bool
    """True if it should begin."""
    why: str
    """The reason why it is due, or when it will be, in words."""
    remarks: tuple[str, ...] = ()


class Player(NamedTuple):
    """A policy that is judged."""

    policy: Path
    """A file that ``load_policy`` reads."""
    env: EnvConfig
    """Of the run that trained it."""


@dataclass(frozen=True)
class Score:
    """The score of one policy on what is judged."""

    mean: float
    low: float
    """The 95 % interval of it alone."""
    high: float
    count: int
    """Days or episodes."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a judgement."""

    challenger: Score
    incumbent: Score | None
    """None: nothing was deployed."""
    ahead: float | None
    """Mean of the challenger less the incumbent's, on the same days or episodes."""
    low: float | None
    """Lower bound of it, one-sided, at the level of the gate; None: too little was played."""
    level: float
    unit: str
    """Of all these numbers: ``bp a day``."""
    words: str
    """The test and what it was made on."""

    @property
    def promotes(self) -> bool:
        """True if the challenger is to be deployed."""
        return self.incumbent is None or (self.low is not None and self.low > 0)

    @property
    def said(self) -> str:
        """The numbers in a sentence's end."""
        own = self.challenger
        if self.incumbent is None:
            return (
                f"{own.mean:+.4g} [{own.low:+.4g}, {own.high:+.4g}] {self.unit} in {self.words},"
                " and nothing was deployed"
            )
        bound = "no bound" if self.low is None else f"at least {self.low:+.4g}"
        found = "ahead of the deployed one by"
        if not self.promotes:
            found = "not shown to be ahead of the deployed one:"
        return (
            f"{found} {self.ahead:+.4g} {self.unit}, {bound} (one-sided"
            f" {1 - self.level:.0%}), in {self.words}"
        )


class Stream(Protocol):
    """A task's side of continuous training.

    It may have a method ``unlike(player) -> str``: the reason why no pod can start from a policy's
    weights, in words, or "".
    """

    def look(self, before: Windows | None, cycle: int) -> Look:
        """Look for news.

        Args:
            before: of the last cycle that has used its data up; None: there was none.
            cycle: number of the one that may be due, from 1.

        Raises:
            UserError: the data are broken, or less than they were.
        """
        ...

    def adopted(self) -> Windows:
        """The data that a run of this configuration may have seen: all there are now."""
        ...

    def digest(self, windows: Windows) -> str:
        """SHA-256 of the data of a cycle as they are now: other than the cycle's own if what it saw
        was changed since."""
        ...

    def judge(
        self, windows: Windows, challenger: Player, incumbent: Player | None, folder: Path
    ) -> Verdict:
        """Compare two policies on what neither has seen. Equal arguments give equal verdicts.

        Args:
            windows: of the cycle.
            challenger: the new policy.
            incumbent: the deployed one; None: there is none.
            folder: for scores that need not be played twice.

        Raises:
            NotComparable: there is nothing on which both can be played; the cycle ends.
            UserError: a policy can't be played. If it is the deployed one, as ``sample`` tells, the
                cycle ends; else the next call tries again.
        """
        ...

    def sample(self, windows: Windows, player: Player, part: Part) -> Sample:
        """Features and rewards that a policy meets, for the report on drift.

        Args:
            windows: of a cycle.
            player: the policy.
            part: what was trained on, or what is judged on.

        Raises:
            UserError: it can't be played.
        """
        ...

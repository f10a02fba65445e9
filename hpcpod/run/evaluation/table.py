"""The outcome of an evaluation: a row for each policy in each condition, by common seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hpcpod.run.evaluation.policies import Candidate
from hpcpod.tournament.statistics import interval, mean, sd


@dataclass(frozen=True)
class EvaluationRow:
    """A policy in a condition."""

    condition: str
    """The environment: ``as trained``, the id of another, or what is changed."""
    place: int
    """Its place among the policies of the condition by ``mean``, from 1."""
    policy: str
    """The policy's name: its run and its pod, or its file."""
    source: str
    """The run's folder, or the file."""
    pod: str
    """The pod's name; empty if the file does not say."""
    round: int | None
    """The round after which it was saved; None if its file does not say."""
    agent: str
    """The algorithm."""
    env: str
    """The environment's id."""
    episodes: int
    """Episodes, on the same seeds for every row; of recorded data the stretches of it that they
    were played on, each of which counts once."""
    mean: float
    """Mean undiscounted return, without exploring."""
    sd: float
    """Standard deviation over episodes."""
    low: float
    """Lower end of the mean's 95 % interval (Student's), of this policy alone: it allows for no
    choice among several."""
    high: float
    """Upper end of it."""
    iqm: float
    """Interquartile mean over episodes."""
    iqm_low: float
    """Lower end of its 95 % interval, by a bootstrap over episodes."""
    iqm_high: float
    """Upper end of it."""
    over: str | None
    """The policy at the next place of the condition; None for the last one."""
    improves: float | None
    """Probability that an episode returns more than one of that policy, ties counting half: on the
    same seed where seeds decide episodes, else of any pair of episodes."""
    improves_low: float | None
    """Lower end of its 95 % interval."""
    improves_high: float | None
    """Upper end of it."""
    paired: bool
    """True if the seeds decide the episodes, so that policies are compared seed by seed."""
    engine: str
    """The simulators, with versions."""
    returns: tuple[float, ...]
    """The returns, in the order of the seeds; of recorded data the mean of each stretch."""


@dataclass(frozen=True)
class Evaluation:
    """Policies in conditions, scored on common seeds."""

    rows: tuple[EvaluationRow, ...]
    """Condition by condition, in each the highest mean first."""
    seeds: range
    """The episodes' seeds, as the environment's ``reset`` got them."""
    earlier: int = 0
    """Episodes that were in the folder of scores already. Code of an environment, a wrapper or an
    agent that has changed since then did not play them."""

    @property
    def conditions(self) -> list[str]:
        """The names of the conditions, in the order in which they were asked for."""
        return list(dict.fromkeys(row.condition for row in self.rows))

    def of(self, condition: str) -> list[EvaluationRow]:
        """The rows of a condition, the highest mean first."""
        return [row for row in self.rows if row.condition == condition]

    def frame(self) -> Any:
        """The rows without their returns, as a pandas DataFrame; without pandas as mappings."""
        from hpcpod.run.data import as_frame

        return as_frame(EvaluationRow, self.columns())

    def columns(self) -> dict[str, list[Any]]:
        """The rows without their returns, by column."""
        from hpcpod.run.data import plain_rows

        return plain_rows(EvaluationRow, self.rows, without=("returns",))


@dataclass(frozen=True)
class Played:
    """The episodes of a policy in a condition."""

    policy: Candidate
    env: str
    """The environment's id."""
    returns: tuple[float, ...]
    engine: str
    paired: bool
    """True if the seeds decide the episodes."""


def rows_of(condition: str, played: Iterable[Played]) -> list[EvaluationRow]:
    """The rows of a condition, the highest mean first; of equal means in the given order."""
    ordered = sorted(played, key=lambda each: -mean(each.returns))
    found = [_row(condition, place, each) for place, each in enumerate(ordered, start=1)]
    return [*(_compared(a, b) for a, b in pairwise(found)), *found[-1:]]


def _row(condition: str, place: int, played: Played) -> EvaluationRow:
    from hpcpod.tournament.scores import iqm, iqm_interval

    policy, returns = played.policy, played.returns
    low, high = interval(returns)
    iqm_low, iqm_high = iqm_interval([returns])
    return EvaluationRow(
        condition, place, policy.label, policy.source, policy.pod, policy.round, policy.agent,
        played.env, len(returns), mean(returns), sd(returns), low, high, iqm(returns), iqm_low,
        iqm_high, None, None, None, None, played.paired, played.engine, returns,
    )  # fmt: skip


def _compared(row: EvaluationRow, other: EvaluationRow) -> EvaluationRow:
    from hpcpod.tournament.scores import improvement

    found = improvement(row.returns, other.returns, paired=row.paired and other.paired)
    return replace(
        row, over=other.policy, improves=found.probability, improves_low=found.low,
        improves_high=found.high,
    )  # fmt: skip


def seeds_said(seeds: Sequence[int]) -> str:
    """The seeds of an evaluation in words."""
    return f"{seeds[0]} to {seeds[-1]}"

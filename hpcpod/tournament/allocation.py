"""Allocation of a run's budget: what an allocator sees, what it decides, and what may be decided.

An allocator is asked after each merge of rounds, failed ones too. It orders the pods, and may have
some rest: a pod that rests keeps everything and trains again when an allocator says so. Where the
budget is counted in environment steps, an idle slot costs nothing and resting pods are not trained.
Where it is counted in seconds they have the last turns: a slot that finds nothing better trains one
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from operator import not_
from typing import Protocol

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Board, PodState, stable_hash
from hpcpod.tournament.budget import (
    Axis,
    axis_of,
    due,
    experience,
    later_share,
    slots_at_work,
    slots_of,
    spent_share,
    young,
)
from hpcpod.tournament.controls import RESTS, leading, measure, privileged
from hpcpod.tournament.settle import as_dead, rank
from hpcpod.tournament.statistics import mean, standard_error


@dataclass(frozen=True)
class Point:
    """An evaluation on a pod's learning curve."""

    spent: float
    """Experience that it took, its ancestors' included, on the budget's axis: environment steps,
    or slot-seconds."""
    round: int
    returns: tuple[float, ...]
    """Of its panel."""

    # a thousand pods' means at each merge cost more than the merge, and most rules ask for none
    @cached_property
    def mean(self) -> float:
        """The mean return."""
        return mean(self.returns)

    @cached_property
    def error(self) -> float:
        """The standard error of the mean."""
        return standard_error(self.returns)


@dataclass(frozen=True)
class Candidate:
    """A living pod that has a round to train."""

    pod: str
    algorithm: str
    curve: tuple[Point, ...]
    """Oldest first; empty before the first round was evaluated."""
    returns: tuple[float, ...] = ()
    """Of the last panel, which is common to all pods of the same round."""
    score: float | None = None
    """The estimated mean return of the last checkpoint; None before there is one."""
    protected: bool = False
    """It may not rest: the leader, or a control that is not shown to be worse than the leader."""
    rests: bool = False
    """It rests now."""
    repeats: str = ""
    """The pod whose training it repeats with another seed; empty if none."""
    share: float = 0.0
    """Experience before which it should not rest, on the budget's axis; 0: it has had its share."""

    untried: bool = False
    """True while it has not had a fresh draw's share of the budget, by none of the run's limits."""

    @property
    def young(self) -> bool:
        """True while it has not had its share."""
        return self.spent < self.share

    @property
    def rounds(self) -> int:
        """Rounds of experience."""
        return self.curve[-1].round if self.curve else 0

    @property
    def spent(self) -> float:
        """Its experience on the budget's axis."""
        return self.curve[-1].spent if self.curve else 0.0


@dataclass(frozen=True)
class Prospects:
    """Everything that an allocator decides by."""

    candidates: tuple[Candidate, ...]
    """Living pods that have a round to train, by name."""
    axis: Axis
    """Of the budget."""
    spent: float | None
    """Share of the run's budget that is spent, in [0, 1]; None: nothing but rounds limits it."""
    left: float | None
    """Experience that one pod would gain if it alone trained until the end, on the same axis."""
    rounds: int | None
    """Rounds after which a pod is done."""
    pods: int
    """Places of the population."""
    key: int
    """Root of every draw."""
    slots: int | None = None
    """Slots that the configuration asks for; else those that were at work, one less than pods at
    most; None: neither is known yet."""
    done: tuple[Candidate, ...] = ()
    """Living pods that have trained all their rounds, by name."""
    counted: int = 0
    """Rounds that the population has finished."""
    worst: float | None = None
    """The worst return of an episode that the run has seen."""
    share: float = 0.0
    """Experience that a fresh draw would have a right to, on the budget's axis."""
    floor: float | None = None
    """The lowest median of a panel that the run has seen."""

    @cached_property
    def scored(self) -> list[Candidate]:
        """Candidates that have a score, best first."""
        return _ranked(self.candidates)

    @cached_property
    def rivals(self) -> list[Candidate]:
        """Pods that have a score, best first: candidates, and where nothing but rounds limits the
        run those that are done. Of a budget there is something left to spend; rounds are saved."""
        return _ranked((*self.candidates, *(self.done if self.spent is None else ())))

    @cached_property
    def unscored(self) -> list[Candidate]:
        """Candidates that nothing is known of."""
        return [each for each in self.candidates if each.score is None]


def _ranked(pods: Iterable[Candidate]) -> list[Candidate]:
    found = [each for each in pods if each.score is not None]
    return sorted(found, key=lambda each: (-(each.score or 0.0), each.pod))


@dataclass(frozen=True)
class Allocation:
    """An allocator's decision."""

    order: tuple[str, ...] = ()
    """Pods, those that train next first. Pods that are not named come after them, and by the
    tournament's own order: each algorithm gets its share of the time, the fewest rounds first."""
    resting: Mapping[str, str] = field(default_factory=dict)
    """Pods that rest, each with the reason."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Pods that end, each with the reason; no other takes the place."""
    again: Mapping[str, str] = field(default_factory=dict)
    """Pods that end so that a new one takes the place, each with the pod whose hyperparameters the
    new one trains again from scratch, with another seed."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """Pods that end so that a fresh draw of their algorithm takes the place, each with the
    reason."""

    @property
    def succeeded(self) -> Mapping[str, str]:
        """Pods that end so that a new one takes the place."""
        return {**self.again, **self.fresh}


class Allocator(Protocol):
    """Decides who trains next. Pure: the same prospects, the same allocation.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def allocate(self, prospects: Prospects) -> Allocation:
        """Say who trains next, who rests, and who is given up."""
        ...


def prospects(board: Board, config: RunConfig, now: float) -> Prospects:
    """The prospects of the pods on a board.

    Args:
        board: all reports of the merge are in, and all births that follow from them.
        config: of the run.
        now: Unix time in seconds.
    """
    axis, spent = axis_of(config), spent_share(board, config, now)
    left = _left(board, config, axis, now)
    first, best = leading(board), measure(board)
    living = board.living
    working = slots_at_work(board, config, now)
    slots = slots_of(config)
    if slots is None and working is not None:
        # A slot for each pod has to be asked for: of steps fewer work as soon as a pod rests.
        slots = max(1, min(round(working), config.population.pods.max - 1))
    every = [_candidate(pod, first, best, axis, config, working) for pod in living]
    trains = [pod.birth is not None for pod in living]
    key = stable_hash(config.seed, board.rounds, "allocation")
    return Prospects(
        tuple(compress(every, trains)), axis, spent, left, config.stop.rounds,
        config.population.pods.max, key, slots,
        tuple(compress(every, map(not_, trains))), board.rounds, board.worst,
        due(later_share(config, working), config, working), board.floor,
    )  # fmt: skip


def _left(board: Board, config: RunConfig, axis: Axis, now: float) -> float | None:
    """The rest of the limit that is counted on an axis; None without one."""
    stop = config.stop
    if axis == "env_steps":
        return None if stop.env_steps is None else float(max(0, stop.env_steps - board.env_steps))
    return None if stop.minutes is None else max(0.0, 60 * stop.minutes - board.elapsed(now))


def _candidate(
    pod: PodState, first: PodState | None, best: PodState | None, axis: Axis, config: RunConfig,
    slots: float | None,
) -> Candidate:  # fmt: skip
    points = [Point(experience(e, axis, config), e.round, e.returns) for e in pod.evaluations]
    last = pod.history[-1] if pod.history else None
    leads = first is not None and pod.id == first.id
    return Candidate(
        pod.id,
        pod.algorithm,
        tuple(points),
        () if last is None else last.returns,
        None if last is None else rank(last)[0],
        protected=leads or privileged(pod, best, RESTS),
        rests=bool(pod.rests),
        repeats=pod.repeats or "",
        share=due(pod.share, config, slots) if young(last, pod.share, config, slots) else 0.0,
        untried=young(last, later_share(config, slots), config, slots),
    )


def refusal(allocation: object, prospects: Prospects) -> str:
    """The reason why an allocation can't be carried out, in words; empty if it can."""
    if not isinstance(allocation, Allocation):
        return f"it gives a {type(allocation).__name__}, not an Allocation"
    known = {each.pod: each for each in prospects.candidates}
    living = {**known, **{each.pod: each for each in prospects.done}}
    idle = {**allocation.resting, **allocation.given_up}
    for pod in (*allocation.order, *idle):
        if pod not in known:
            return f"it names {pod!r}, which is no pod that has a round to train"
        if not idle.get(pod, "rests"):
            return f"it leaves {pod} without a round, and gives no reason"
    # a run none of whose pods has finished a round has failed once one of them is gone
    if allocation.given_up and not prospects.counted:
        return f"it gives up {min(allocation.given_up)} before any pod has finished a round"
    for pod in (*allocation.succeeded, *allocation.again.values()):
        if pod not in living:
            return f"it has {pod!r} trained again, or replaced, which is no living pod"
    for pod in (*idle, *allocation.succeeded):
        if living[pod].protected:
            return f"it leaves {pod} without a round, which leads or is a control"
    ends = prospects.spent is None and prospects.done  # with these, after rounds that were saved
    if known and not allocation.succeeded and not ends and len(idle) == len(known):
        return "it leaves every pod without a round"
    return ""


def carried_out(board: Board, allocation: Allocation, axis: Axis) -> Board:
    """The board with an allocation on it, but for the pods that are born for it."""
    resting = allocation.resting
    turns = tuple(pod for pod in allocation.order if pod not in resting)
    if axis == "seconds":  # a slot that idles wins nothing: they come last, see Board.resting
        turns = (*turns, *resting)
    pods = dict(board.pods)
    for pod in board.living:
        reason = resting.get(pod.id, "")
        if pod.id in allocation.given_up:
            pods[pod.id] = as_dead(pod, allocation.given_up[pod.id], "given up")
        elif bool(pod.rests) != bool(reason):  # its rank is another one at each merge: no news
            pods[pod.id] = replace(pod, rests=reason)
    return replace(board, pods=pods, turns=turns)

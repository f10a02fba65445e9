"""Agents without networks: orders are answered with numbers, all else is hpcpod's own.

Only what every version of the tournament has is used here: ``Rules.of``, ``first_board``,
``orders``, ``fold``, ``leader``, ``take``, and the records. So the same benchmark can be played
by the rules of two commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RoundConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import AlgorithmSpace, LogUniform
from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Confirmed,
    Entry,
    Hyperparameters,
    Order,
    PodState,
    Report,
    Verdict,
    stable_hash,
)
from hpcpod.tournament import stopping
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.stopping import leader
from hpcpod.tournament.updaters import Updater

EPISODES = 32
Returns = NDArray[np.float64]
SPACE = AlgorithmSpace("toy", {"step": LogUniform(0.01, 1.0)}, {"step": 0.1})
"""One hyperparameter, ``step``. Its default, which controls have, is the middle of the range."""


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark's run."""

    replicates: int = 100
    updater: str | None = None
    """Null: the configuration's default."""
    seed: int = 0
    generator: str | None = None
    """Null: the configuration's default."""
    second_looks: float = 0.0
    """``population.second_looks``."""
    allocators: Sequence[str] = ()
    """Of the scenarios ``budget`` and ``unseen``; empty: all."""
    worlds: Sequence[str] = ()
    """Of the scenarios ``budget`` and ``unseen``; empty: all."""


@dataclass(frozen=True)
class Game:
    """A run's configuration, without what no scenario varies."""

    pods: int
    algorithms: Mapping[str, float] = field(default_factory=lambda: {"toy": 1.0})
    stop: StopConfig = field(default_factory=StopConfig)
    controls: int = 0
    episodes: int = EPISODES
    env_steps: int = 50_000
    never_copy: bool = False
    allocator: str = "fair"
    """The other scenarios' allocator: they do not measure who trains."""
    space: AlgorithmSpace = SPACE
    """Of every algorithm."""

    def rules(self, settings: Settings, replicate: int) -> Rules:
        """The run's real rules."""
        population = PopulationConfig(
            pods=PodsConfig(min=1, max=self.pods),
            algorithms=self.algorithms,
            controls=self.controls,
        )
        if settings.updater is not None:
            population = replace(population, updater=settings.updater)
        if settings.generator is not None:
            population = replace(population, generator=settings.generator)
        if settings.second_looks:
            population = replace(population, second_looks=settings.second_looks)
        if hasattr(population, "allocator"):  # another checkout's has none
            population = replace(population, allocator=self.allocator)
        stop = self.stop
        if hasattr(stop, "ensembles"):  # agents here are numbers, which no rule can join
            stop = replace(stop, ensembles=replace(stop.ensembles, rules=()))
        config = RunConfig(
            name="selection",
            env=EnvConfig("Selection-v0"),
            seed=stable_hash(settings.seed, replicate),
            population=population,
            round=RoundConfig(env_steps=self.env_steps, episodes=self.episodes),
            stop=stop,
        )
        rules = Rules.of(config, dict.fromkeys(self.algorithms, self.space))
        return replace(rules, updater=Nobody(rules.updater)) if self.never_copy else rules


class Nobody:
    """The run's updater, by which nobody ever beats anybody."""

    def __init__(self, real: Updater) -> None:
        self._real = real

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        return replace(self._real.judge(cohorts, report), beaten_by=(), evidence={})


class Agents:
    """Policies that are numbers. A scenario says how one is trained, and how it plays.

    Episodes of one panel share their seeds: half of the variance of ``returns`` is common to all
    pods of a round.
    """

    def __init__(self, rules: Rules, replicate: int, spread: float = 1.0) -> None:
        self.rules = rules
        self.spread = spread
        """Standard deviation of a return."""
        self.rng = np.random.default_rng([rules.config.seed, replicate])
        self.skill: dict[str, float] = {}
        """The state that training goes on from, by checkpoint."""
        self.truth: dict[str, float] = {}
        """True mean return, by checkpoint."""
        self.scored: dict[str, int] = {}
        """Orders on fresh seeds that were answered, by purpose."""
        self._panels: dict[tuple[str, int], Returns] = {}

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        """Skill and true score after a round; the skill of a founder is 0 before its first."""
        return skill, skill

    def returns(self, truth: float, shared: Returns) -> Returns:
        """Of the episodes of a panel, whose common effects have mean 0 and variance 1."""
        own = self.rng.standard_normal(len(shared))
        return np.asarray(truth + self.spread * 0.5**0.5 * (shared + own))

    def seconds(self, birth: Birth) -> float:
        """Of a round, where a scenario counts the time by its pods."""
        return 60.0

    def answer(self, order: Order, train: float = 60.0, evaluate: float = 2.0) -> Report:
        """A good report that has cost so many seconds."""
        if isinstance(order, Birth):
            return self._birth(order, train, evaluate)
        self.scored[order.purpose] = self.scored.get(order.purpose, 0) + 1
        episodes = getattr(order, "episodes", None) or self.rules.config.stop.confirm_episodes
        shared = self._shared(order.purpose, order.number, episodes)
        report = Report(order.id, order.pod, order.round, order.attempt, slot="s")
        played = self.returns(self.truth[order.checkpoint.core], shared).tolist()
        return replace(
            report, returns=tuple(played), wall_seconds=evaluate, evaluate_seconds=evaluate
        )

    def _birth(self, order: Birth, train: float, evaluate: float) -> Report:
        steps = self.rules.config.round.env_steps
        core = core_of(order)
        before = 0.0 if order.checkpoint is None else self.skill[order.checkpoint.core]
        self.skill[core], self.truth[core] = self.trained(order, before)
        shared = self._shared("panel", order.round, self.rules.config.round.episodes)
        return Report(
            order.id,
            order.pod,
            order.round,
            order.attempt,
            slot="s",
            returns=tuple(self.returns(self.truth[core], shared).tolist()),
            checkpoint=Checkpoint(core, env_steps=steps * order.round),
            trained_steps=steps,
            wall_seconds=train + evaluate,
            train_seconds=train,
            evaluate_seconds=evaluate,
        )

    def _shared(self, purpose: str, number: int, episodes: int) -> Returns:
        if (purpose, number) not in self._panels:
            self._panels[purpose, number] = self.rng.standard_normal(episodes)
        return self._panels[purpose, number]


def core_of(birth: Birth) -> str:
    """The name of the checkpoint that a round ends in."""
    return f"core of {birth.id}"


def founded(pod: PodState, hyperparameters: Hyperparameters) -> PodState:
    """A founder that has these hyperparameters instead of those it drew."""
    assert pod.birth is not None
    birth = replace(pod.birth, hyperparameters=hyperparameters)
    return replace(pod, hyperparameters=hyperparameters, birth=birth)


def in_step(rules: Rules, agents: Agents) -> list[Board]:
    """The boards of a whole run in which every open order is answered, and all merged at once."""
    boards, now = [first_board(rules, 0.0)], 0.0
    while boards[-1].phase != "finished":
        now += 60.0
        boards.append(fold(boards[-1], _answers(boards[-1], agents), rules, now=now))
    return boards


def ended(board: Board, rules: Rules, agents: Agents) -> Board:
    """A board that ``hpcpod stop`` has ended, after whatever the rules still want to be scored.

    Once a stop scored nothing.
    """
    board = fold(board, [], rules, now=1e9, stop=getattr(stopping, "FINALS_FIRST", "user"))
    while board.phase != "finished":
        board = fold(board, _answers(board, agents), rules, now=1e9)
    return board


def _answers(board: Board, agents: Agents) -> list[Report]:
    waiting = orders(board)
    if not waiting:
        raise RuntimeError(f"a board in the phase {board.phase} without an order never ends")
    return [agents.answer(order) for order in waiting]


def running(boards: Sequence[Board]) -> Board:
    """The last board before the run's limit was met."""
    return next(board for board in reversed(boards) if board.phase == "running")


def copies(board: Board, since: Board | None = None) -> list[tuple[PodState, PodState]]:
    """Pods whose place a copy has taken, each with the child; since another board, or ever."""
    return [
        (board.pods[child.replaces], child)
        for name, child in board.pods.items()
        if (since is None or name not in since.pods)
        and child.cause == "copy"
        and child.replaces is not None
        and board.pods[child.replaces].fate == "replaced"
    ]


def delivered(board: Board) -> Confirmed | Entry:
    """The score of the policy that the run hands over, with its checkpoint."""
    best = leader(board)
    assert best is not None
    return best

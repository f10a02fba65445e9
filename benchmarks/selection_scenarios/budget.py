"""A budget that is too small for all: which allocator delivers the best policy?

By default 16 pods may train 160 rounds together, two at a time. A pod approaches a ceiling, and
ceiling and speed follow from its ``step``; with copies, as by default, and without. The worlds of
``UNSEEN`` were written down before any allocator was chosen, and none was changed for them; "rare
failures" came last.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, Board, Order
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Returns, Settings, delivered

ENV_STEPS = 20_000
SECONDS = 60.0
"""Of a round, where pods are equally fast."""
Trained = Callable[[float, float, np.random.Generator], tuple[float, float]]
"""Skill and score after a round, of the pod's place in the range of ``step``, 0 to 1, its skill
before, and random numbers."""


@dataclass(frozen=True)
class World:
    """A task, and the budget that there is for it."""

    trained: Trained
    spread: float = 15.0
    """Standard deviation of a return."""
    failing: float = 0.0
    """Share of episodes that return 1000 less, of every policy; the others return so much more
    that the mean is what it is without."""
    pods: int = 16
    slots: int = 2
    rounds: int = 160
    """The budget: of all pods together."""
    slower: float = 1.0
    """Seconds that a round takes at the lower end of the range, by those at the upper one; other
    than 1, the budget is counted in seconds."""


def hill(place: float) -> float:
    """1 where the hyperparameter is best, falling to both sides."""
    return math.exp(-8 * (place - 0.6) ** 2)


def towards(skill: float, ceiling: float, rate: float) -> float:
    """The skill a round later."""
    return skill + rate * (ceiling - skill)


def open_(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """Fast learners go far."""
    skill = towards(skill, 100 * hill(place), 0.03 + 0.07 * hill(place))
    return skill, skill


def late(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """Slow learners go farther."""
    skill = towards(skill, 100.0 - 60 * place, 0.02 + 0.18 * place)
    return skill, skill


def trap(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """The fastest pay for it in today's score, and gain on the others."""
    skill = towards(skill, 100.0, 0.06 * 10 ** (2 * place - 2))
    return skill, skill - 20 * 10 ** (2 * place - 2)


def flat(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """All are equal."""
    skill = towards(skill, 60.0, 0.05)
    return skill, skill


def brittle(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """A policy loses most of its skill in one round of fifteen."""
    skill = open_(place, skill, rng)[0] * (0.2 if rng.random() < 1 / 15 else 1.0)
    return skill, skill


def steps(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """Growth by an S: nothing for a while, then much."""
    skill = max(skill, 2.0)
    skill += 0.5 * hill(place) * skill * (1 - skill / (40 + 60 * hill(place)))
    return skill, skill


def luck(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """A breakthrough comes at any round, more often to some, and growth begins with it."""
    if skill == 0.0 and rng.random() > 0.15 * hill(place):
        return 0.0, 0.0
    skill = towards(skill, 50 + 50 * place, 0.1)
    return skill, skill


def crossing(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """The ceiling is highest where learning is of a middle speed."""
    skill = towards(skill, 100 * hill(place), 0.02 + 0.15 * place)
    return skill, skill


def stuck(place: float, skill: float, rng: np.random.Generator) -> tuple[float, float]:
    """Two of three learn to do nothing, fast; the others pay for each attempt before they gain."""
    if place < 2 / 3:
        skill = towards(skill, 1.0, 0.5)
        return skill, 40 * skill - 40
    skill = towards(skill, 1.0, 0.06)
    return skill, 160 * skill**2 - 60


WORLDS = {
    "open": World(open_),
    "late": World(late),
    "trap": World(trap),
    "flat": World(flat),
    "brittle": World(brittle),
    "noisy": World(open_, spread=60.0),
    "speeds": World(open_, slower=4.0),
    "stuck": World(stuck),
    "rare failures": World(open_, failing=0.02),
}
UNSEEN = {
    "steps": World(steps),
    "luck": World(luck, spread=10.0),
    "crossing": World(crossing, spread=25.0),
    "few": World(open_, pods=6, slots=1, rounds=60),
    "many": World(crossing, pods=40, slots=4, rounds=200, spread=30.0),
    "slow crossing": World(crossing, pods=12, slots=3, rounds=120, slower=0.25),
}
EVERY = {**WORLDS, **UNSEEN}
ALLOCATORS = ("fair", "halving", "ocba", "thompson", "curves")


class Pupils(Agents):
    """Policies that learn as a world says."""

    def __init__(self, rules: Rules, replicate: int, world: World) -> None:
        super().__init__(rules, replicate, world.spread)
        self._world = world

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        return self._world.trained(place(birth), skill, self.rng)

    def returns(self, truth: float, shared: Returns) -> Returns:
        found, share = super().returns(truth, shared), self._world.failing
        if not share:
            return found
        return found + 1000 * (share - (self.rng.random(len(found)) < share))

    def seconds(self, birth: Birth) -> float:
        return SECONDS * math.pow(self._world.slower, 1 - place(birth))


def place(birth: Birth) -> float:
    """The place of a pod's ``step`` in its range, 0 to 1."""
    step = birth.hyperparameters["step"]
    assert isinstance(step, float)
    return (math.log10(step) + 2) / 2


def rows(settings: Settings) -> Iterator[Row]:
    allocators = settings.allocators or (ALLOCATORS if settings.generator is None else ("fair",))
    for name, world in ((name, EVERY[name]) for name in settings.worlds or EVERY if name in EVERY):
        for never in (True, False) if settings.generator is None else (False,):
            for allocator in allocators:
                case = f"{name}, {'no copies' if never else 'copies'}, {allocator}"
                yield Row("budget", case, outcome(world, allocator, never, settings))


def outcome(world: World, allocator: str, never: bool, settings: Settings) -> dict[str, Number]:
    """The policies that are delivered, and how much of the budget their lineage took."""
    scores, lengths = [], []
    stop = StopConfig(env_steps=world.rounds * ENV_STEPS)
    if world.slower != 1.0:  # two of three rounds take longer than the mean of both ends
        mean_seconds = SECONDS * (1 + world.slower) / 2
        stop = StopConfig(minutes=world.rounds * mean_seconds / world.slots / 60)
    game = Game(world.pods, stop=stop, env_steps=ENV_STEPS, never_copy=never, allocator=allocator)
    for replicate in range(settings.replicates):
        rules = game.rules(settings, replicate)
        agents = Pupils(rules, replicate, world)
        board = (in_turns if world.slower == 1.0 else by_the_clock)(rules, agents, world.slots)
        best = delivered(board)
        scores.append(agents.truth[best.checkpoint.core])
        lengths.append(float(best.round))
    return {"true score delivered": mean(scores), "rounds of the winner": mean(lengths)}


def in_turns(rules: Rules, agents: Agents, slots: int) -> Board:
    """The end of a run whose slots all report at once."""
    board, now = first_board(rules, 0.0), 0.0
    while board.phase != "finished":
        now += SECONDS
        reports = [agents.answer(order) for order in waiting(board)[:slots]]
        board = fold(board, reports, rules, now=now)
    return board


def by_the_clock(rules: Rules, agents: Agents, slots: int) -> Board:
    """The end of a run each of whose slots reports when its round is trained."""
    board, now = first_board(rules, 0.0), 0.0
    busy: list[tuple[float, str, Order]] = []
    began: dict[str, float] = {}
    while board.phase != "finished":
        for order in waiting(board):
            if len(busy) < slots and order.id not in began:
                began[order.id] = now
                took = agents.seconds(order) if isinstance(order, Birth) else 2.0
                heapq.heappush(busy, (now + took, order.id, order))
        now, name, order = heapq.heappop(busy)
        report = agents.answer(order, train=now - began[name], evaluate=0.0)
        board = fold(board, [report], rules, now=now)
    return board


def waiting(board: Board) -> list[Order]:
    """Orders that a slot would take."""
    resting = resting_pods(board)
    return [each for each in orders(board) if board.rescores or each.pod not in resting]

"""A budget of steps that is too small for all: which allocator delivers the best policy?

16 pods may train 160 rounds together, two at a time. A pod approaches a ceiling, and both ceiling
and speed follow from its ``step``. In ``open`` who is fast goes far, in ``late`` who starts slowly
goes farther, in ``flat`` all are equal, in ``brittle`` a policy loses most of its skill in one
round of fifteen, in ``noisy`` returns vary as much as pods do. With copies, as by default, and
without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, delivered

PODS, SLOTS, ROUNDS = 16, 2, 160
ENV_STEPS = 20_000
WORLDS = {"open": 15.0, "late": 15.0, "flat": 15.0, "brittle": 15.0, "noisy": 60.0}
"""Standard deviation of a return."""
ALLOCATORS = ("fair", "halving", "ocba", "thompson", "curves")
BRITTLE = 1 / 15


class Pupils(Agents):
    """Policies that approach a ceiling of 0 to 100."""

    def __init__(self, rules: Rules, replicate: int, world: str) -> None:
        super().__init__(rules, replicate, WORLDS[world])
        self._world = world

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        step = birth.hyperparameters["step"]
        assert isinstance(step, float)
        place = (math.log10(step) + 2) / 2  # 0 to 1 over the range
        if self._world == "flat":
            ceiling, rate = 60.0, 0.05
        elif self._world == "late":
            ceiling, rate = 100.0 - 60 * place, 0.02 + 0.18 * place
        else:
            ceiling = 100 * math.exp(-8 * (place - 0.6) ** 2)
            rate = 0.03 + 0.07 * math.exp(-8 * (place - 0.6) ** 2)
        skill += rate * (ceiling - skill)
        if self._world == "brittle" and self.rng.random() < BRITTLE:
            skill *= 0.2
        return skill, skill


def rows(settings: Settings) -> Iterator[Row]:
    for world in WORLDS:
        for never in (True, False):
            for allocator in ALLOCATORS:
                case = f"{world}, {'no copies' if never else 'copies'}, {allocator}"
                yield Row("budget", case, outcome(world, allocator, never, settings))


def outcome(world: str, allocator: str, never: bool, settings: Settings) -> dict[str, Number]:
    """The policies that are delivered, and how much of the budget their lineage took."""
    scores, lengths = [], []
    stop = StopConfig(env_steps=ROUNDS * ENV_STEPS)
    game = Game(PODS, stop=stop, env_steps=ENV_STEPS, never_copy=never, allocator=allocator)
    for replicate in range(settings.replicates):
        rules = game.rules(settings, replicate)
        agents = Pupils(rules, replicate, world)
        board, now = first_board(rules, 0.0), 0.0
        while board.phase != "finished":
            now += 60.0
            resting = resting_pods(board)
            open_orders = [o for o in orders(board) if board.rescores or o.pod not in resting]
            board = fold(board, [agents.answer(o) for o in open_orders[:SLOTS]], rules, now=now)
        best = delivered(board)
        scores.append(agents.truth[best.checkpoint.core])
        lengths.append(float(best.round))
    return {"true score delivered": mean(scores), "rounds of the winner": mean(lengths)}

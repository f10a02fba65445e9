"""Skill that grows with the step size, where a large step costs nothing now, or a lot.

16 agents, 60 rounds, returns around 0 to 100 with a standard deviation of 25. In the trap today's
leaders are those that will be overtaken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, PodState
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, copies, core_of, delivered, in_step

PODS, ROUNDS, SPREAD = 16, 60, 25.0
COSTS = {"benign": 0.0, "trap": 20.0}
EPISODES = (8, 32)


class Steps(Agents):
    """Skill goes to 100 as fast as the step is large; a score is skill less the step's cost."""

    def __init__(self, rules: Rules, replicate: int, cost: float) -> None:
        super().__init__(rules, replicate, SPREAD)
        self._cost = cost

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        step = birth.hyperparameters["step"]
        assert isinstance(step, float)
        skill += 0.06 * step * (100 - skill)
        return skill, skill - self._cost * step


def rows(settings: Settings) -> Iterator[Row]:
    for name, cost in COSTS.items():
        for episodes in EPISODES:
            for never in (True, False) if settings.generator is None else (False,):
                case = f"{name}, {episodes} episodes, {'no copies' if never else 'copies'}"
                yield Row("greed", case, outcome(cost, episodes, never, settings))


def outcome(cost: float, episodes: int, never: bool, settings: Settings) -> dict[str, Number]:
    """The policies that are delivered, and the copies on the way."""
    scores, made, right = [], [], []
    game = Game(PODS, stop=StopConfig(rounds=ROUNDS), controls=1, episodes=episodes)
    game = replace(game, never_copy=never)
    for replicate in range(settings.replicates):
        rules = game.rules(settings, replicate)
        agents = Steps(rules, replicate, cost)
        boards = in_step(rules, agents)
        better = [
            is_better(agents, before.pods[old.id], child)
            for before, after in pairwise(boards)
            for old, child in copies(after, before)
        ]
        scores.append(agents.truth[delivered(boards[-1]).checkpoint.core])
        made.append(float(len(better)))
        right.append(sum(better) / len(better) if better else float("nan"))
    return {
        "true score delivered": mean(scores),
        "copies": mean(made),
        "copies of a truly better policy": mean(right),
    }


def is_better(agents: Agents, old: PodState, child: PodState) -> bool:
    """True if a child began with a better policy than the last of the pod that it replaced.

    ``old`` is that pod, holding the order whose report was its last.
    """
    assert child.birth is not None and child.birth.checkpoint is not None
    assert old.birth is not None
    return agents.truth[child.birth.checkpoint.core] > agents.truth[core_of(old.birth)]

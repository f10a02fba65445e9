"""A task with a known best setting of d hyperparameters: how many of them should a birth move?

All ranges are log-uniform. u is a pod's place in them, in [0, 1] for each, and u* the best place,
drawn in each run. A policy's skill goes a fifth of the way each round to 100 q, with

    q = exp(-sum over i of w_i (u_i - u*_i)^2 / (2 x 0.25^2)),  w_i = 1, 1/2, 1/4, ...

so that the first hyperparameters matter most. In the drifting world the first one's best place goes
from one end of its range to the other during the run, as that of a learning rate does. 16 pods, 40
rounds, returns with a standard deviation of 25.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from unittest.mock import patch

from hpcpod.config.schema import StopConfig
from hpcpod.config.space import AlgorithmSpace, LogUniform, Scalar
from hpcpod.records.records import Birth
from hpcpod.tournament import mutation
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, copies, delivered, in_step

PODS, ROUNDS, SPREAD = 16, 40, 25.0
LOW, HIGH = 1e-4, 1.0
RANGES = (2, 4, 8)
COUNTS: Mapping[str, Callable[[int], int]] = {
    "1": lambda ranges: 1,
    "2": lambda ranges: min(2, ranges),
    "half": lambda ranges: math.ceil(ranges / 2),
    "all": lambda ranges: ranges,
}
"""The number of ranges that a birth moves, by that of all."""


class Placed(Agents):
    """Agents whose skill goes to what their place in the ranges allows."""

    def __init__(self, rules: Rules, replicate: int, ranges: int, drifting: bool) -> None:
        super().__init__(rules, replicate, SPREAD)
        self._best = self.rng.uniform(0.15, 0.85, ranges)
        self._drifting = drifting

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        best = self._best.copy()
        if self._drifting:
            best[0] = birth.round / ROUNDS
        apart = [
            0.5**i * (place(value) - best[i]) ** 2
            for i, (_, value) in enumerate(sorted(birth.hyperparameters.items()))
        ]
        quality = math.exp(-sum(apart) / (2 * 0.25**2))
        skill += 0.2 * (100 * quality - skill)
        return skill, skill


def place(value: Scalar) -> float:
    """The place of a value in its range, in [0, 1]."""
    assert isinstance(value, float)
    return math.log(value / LOW) / math.log(HIGH / LOW)


def rows(settings: Settings) -> Iterator[Row]:
    for drifting in (False, True):
        for ranges in RANGES:
            for name in COUNTS:
                world = "drifting" if drifting else "still"
                case = f"{world}, {ranges} ranges, {name} moved"
                yield Row("mutation", case, outcome(ranges, name, drifting, settings))


def outcome(ranges: int, count: str, drifting: bool, settings: Settings) -> dict[str, Number]:
    """The policies that are delivered, and the copies on the way."""
    values = {f"h{i}": LogUniform(LOW, HIGH) for i in range(ranges)}
    space = AlgorithmSpace("toy", values, dict.fromkeys(values, 0.01))
    scores, made = [], []
    for replicate in range(settings.replicates):
        game = Game(PODS, stop=StopConfig(rounds=ROUNDS))
        rules = replace(game.rules(settings, replicate), algorithms={"toy": space})
        agents = Placed(rules, replicate, ranges, drifting)
        with patch.object(mutation, "moved_at_once", COUNTS[count]):
            board = in_step(rules, agents)[-1]
        scores.append(agents.truth[delivered(board).checkpoint.core])
        made.append(float(len(copies(board))))
    return {"true score delivered": mean(scores), "copies": mean(made)}

"""A reward that is seldom reached: policies that never succeed beside some that do, at times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import Agents, Game, Returns, Settings, delivered, in_step, running

PODS, ROUNDS = 8, 4
FAILED, SUCCEEDED = -200.0, -125.0
RATE = 3 / 32


class Seldom(Agents):
    """A policy's truth is its rate of success; with ``exact`` just that share of a panel."""

    def __init__(self, rules: Rules, replicate: int, able: int, exact: bool) -> None:
        super().__init__(rules, replicate)
        self._able, self._exact = able, exact

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        if birth.checkpoint is None:
            skill = RATE if int(birth.pod[1:]) <= self._able else 0.0
        return skill, skill

    def returns(self, truth: float, shared: Returns) -> Returns:
        if self._exact:
            successes = self.rng.permutation(len(shared)) < round(truth * len(shared))
        else:
            successes = self.rng.random(len(shared)) < truth
        return np.where(successes, SUCCEEDED, FAILED)


def rows(settings: Settings) -> Iterator[Row]:
    for able in (1, 4):
        for exact in (True, False):
            rate = "3 of every 32 episodes" if exact else "each episode with 3 / 32"
            case = f"{able} of {PODS} pods, {rate}"
            yield Row("sparse success", case, outcome(able, exact, settings))


def outcome(able: int, exact: bool, settings: Settings) -> dict[str, Number]:
    """The first row, the finalists and the winner, where ``able`` founders succeed at times."""
    leads, finalists, wins = [], [], []
    for replicate in range(settings.replicates):
        rules = Game(PODS, stop=StopConfig(rounds=ROUNDS)).rules(settings, replicate)
        agents = Seldom(rules, replicate, able, exact)
        boards = in_step(rules, agents)
        leads.append(agents.truth[running(boards).entries[0].checkpoint.core] > 0)
        rated = {
            order.pod: agents.truth[order.checkpoint.core] > 0
            for board in boards
            for order in board.rescores.values()
        }
        finalists.append(sum(rated.values()) / len(rated))
        wins.append(agents.truth[delivered(boards[-1]).checkpoint.core] > 0)
    return {
        "first row succeeds at times": share(leads),
        "share of the finalists that do": mean(finalists),
        "winner": share(wins),
    }

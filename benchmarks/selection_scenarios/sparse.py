"""A reward that is seldom reached: policies that never succeed beside some that do, at times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcpod.config.schema import StopConfig
from hpcpod.records import Birth, Board
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import Agents, Game, Returns, Settings, delivered, in_step

PODS, ROUNDS = 8, 4
FAILED, SUCCEEDED = -200.0, -125.0
RATE = 3 / 32
FOUNDERS = 4
"""So many of the pods succeed at times from the start on."""


class Seldom(Agents):
    """A policy's truth is its rate of success; with ``exact`` just that share of a panel."""

    exact = False

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        if birth.checkpoint is None:
            skill = RATE if int(birth.pod[1:]) <= FOUNDERS else 0.0
        return skill, skill

    def returns(self, truth: float, shared: Returns) -> Returns:
        if self.exact:
            successes = self.rng.permutation(len(shared)) < round(truth * len(shared))
        else:
            successes = self.rng.random(len(shared)) < truth
        return np.where(successes, SUCCEEDED, FAILED)


def rows(settings: Settings) -> Iterator[Row]:
    yield Row("sparse success", "3 of every 32 episodes", outcome(True, settings))
    yield Row("sparse success", "each episode with 3 / 32", outcome(False, settings))


def outcome(exact: bool, settings: Settings) -> dict[str, Number]:
    """Who leads at the end, is scored again, and wins."""
    leads, finalists, wins = [], [], []
    for replicate in range(settings.replicates):
        rules = Game(PODS, stop=StopConfig(rounds=ROUNDS)).rules(settings, replicate)
        agents = Seldom(rules, replicate)
        agents.exact = exact
        last: list[Board] = []

        def watch(before: Board, after: Board, last: list[Board] = last) -> None:
            if after.phase != "finished":
                last[:] = [after]

        board = in_step(rules, agents, watch)
        leads.append(agents.truth[last[0].entries[0].checkpoint.core] > 0)
        rated = [agents.truth[order.checkpoint.core] > 0 for order in last[0].rescores.values()]
        finalists.append(sum(rated) / len(rated) if rated else float("nan"))
        wins.append(agents.truth[delivered(board).checkpoint.core] > 0)
    return {
        "first row succeeds at times": share(leads),
        "of the finalists": mean(finalists),
        "winner": share(wins),
    }

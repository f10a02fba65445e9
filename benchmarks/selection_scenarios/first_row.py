"""All policies equal: how far the number that a run shows, and delivers, stands above the truth.

Returns are normal, or 500 but for one episode in a hundred that ends at 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board, Confirmed, Entry
from hpcpod.tournament import stopping
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import (
    Agents,
    Game,
    Returns,
    Settings,
    delivered,
    ended,
    in_step,
    running,
)

SHAPES = ((8, 20), (12, 40))
TOP, FALLEN, FAILING = 500.0, 20.0, 0.01


@dataclass(frozen=True)
class Shown:
    """A score as a run shows it."""

    mean: float
    low: float
    high: float
    episodes: int

    @classmethod
    def of(cls, board: Board, score: Confirmed | Entry) -> Shown:
        """With the interval that is shown; older commits show the score's own."""
        allowed = getattr(stopping, "allowed", lambda _, score: (score.low, score.high, 1))
        low, high, _ = allowed(board, score)
        return cls(score.mean, low, high, score.episodes)


def rows(settings: Settings) -> Iterator[Row]:
    for pods, rounds in SHAPES:
        case = f"{pods} pods, {rounds} rounds"
        first, finals, stopped = runs(pods, rounds, settings)
        yield Row("equal policies", f"{case}: first row", above(first))
        yield Row("equal policies", f"{case}: winner, ended by its limit", above(finals))
        yield Row("equal policies", f"{case}: winner, ended by stop", above(stopped))
    pods, rounds = SHAPES[0]
    case = f"{pods} pods, {rounds} rounds"
    first, finals, stopped = runs(pods, rounds, settings, Failing)
    truth = TOP - FAILING * (TOP - FALLEN)
    for name, shown in (("first row", first), ("by its limit", finals), ("by stop", stopped)):
        held = share(s.low <= truth <= s.high for s in shown)
        yield Row("rare failures", f"{case}: {name}", {"its interval covers the truth": held})


class Failing(Agents):
    """Policies that fail in one episode of a hundred, all of them."""

    def returns(self, truth: float, shared: Returns) -> Returns:
        return np.where(self.rng.random(len(shared)) < FAILING, FALLEN, TOP)


def runs(
    pods: int, rounds: int, settings: Settings, made: type[Agents] = Agents
) -> tuple[list[Shown], list[Shown], list[Shown]]:
    """First row at the end, winner by the finals, and winner if stopped instead, of each run."""
    first: list[Shown] = []
    finals: list[Shown] = []
    stopped: list[Shown] = []
    for replicate in range(settings.replicates):
        rules = Game(pods, stop=StopConfig(rounds=rounds)).rules(settings, replicate)
        agents = made(rules, replicate)
        boards = in_step(rules, agents)
        last = running(boards)
        first.append(Shown.of(last, last.entries[0]))
        finals.append(Shown.of(boards[-1], delivered(boards[-1])))
        stop = ended(last, rules, agents)
        stopped.append(Shown.of(stop, delivered(stop)))
    return first, finals, stopped


def above(shown: list[Shown]) -> dict[str, Number]:
    """The truth is 0, and a return's standard deviation 1."""
    return {
        "standard errors above the truth": mean(s.mean * sqrt(s.episodes) for s in shown),
        "its interval covers the truth": share(s.low <= 0 <= s.high for s in shown),
    }

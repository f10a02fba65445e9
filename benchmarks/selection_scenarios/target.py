"""A target that the true mean is below: how often a run says that it was reached. And above it.

A run of four pods, all of one fixed policy, goes on until its target is confirmed, or it has made
so many attempts, or it has played its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hpcpod.config.schema import StopConfig
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import Agents, Game, Returns, Settings

PODS = 4
ROUNDS = 60
"""Rounds after which a run without a confirmation is ended."""
ATTEMPTS = (1, 10)
ABOVE = (0.02, 0.05, 0.10)

Draw = Callable[[np.random.Generator, int], Returns]


@dataclass(frozen=True)
class Case:
    """A distribution of returns, and a target above its mean."""

    name: str
    draw: Draw
    true: float
    target: float


def falls(top: float, spread: float, share: float, low: float) -> Draw:
    """A good return, but for a share of episodes that end badly."""

    def draw(rng: np.random.Generator, episodes: int) -> Returns:
        fell = rng.random(episodes) < share
        return np.where(fell, low, top + spread * rng.standard_normal(episodes))

    return draw


def normal(rng: np.random.Generator, episodes: int) -> Returns:
    return 100 + 10 * rng.standard_normal(episodes)


def heavy(rng: np.random.Generator, episodes: int) -> Returns:
    return 100 + 10 * rng.standard_t(3, episodes)


def bernoulli(rng: np.random.Generator, episodes: int) -> Returns:
    return (rng.random(episodes) < 0.9).astype(float)


CASES = (
    Case("500, 1 % fall to 20", falls(500, 0, 0.01, 20), 495.2, 496),
    Case("500, 2 % fall to 20", falls(500, 0, 0.02, 20), 490.4, 495),
    Case("500, 3 % fall to 20", falls(500, 0, 0.03, 20), 485.6, 490),
    Case("260 ± 15, 2 % at -100", falls(260, 15, 0.02, -100), 252.8, 255),
    Case("5000 ± 60, 3 % at 800", falls(5000, 60, 0.03, 800), 4874, 4950),
    Case("200, 0.5 % fall to -1000", falls(200, 0, 0.005, -1000), 194, 196),
    Case("normal, 100 ± 10", normal, 100, 101),
    Case("Student's t (3), 100 ± 10", heavy, 100, 101),
    Case("0 or 1, 90 %", bernoulli, 0.9, 0.92),
)
REACHED = ("normal, 100 ± 10", "500, 1 % fall to 20", "260 ± 15, 2 % at -100")
"""Cases whose mean is put above the target, too."""


class Fixed(Agents):
    """Every policy is the same, from the first round on."""

    def __init__(self, rules: Rules, replicate: int, draw: Draw) -> None:
        super().__init__(rules, replicate)
        self._draw = draw

    def returns(self, truth: float, shared: Returns) -> Returns:
        return self._draw(self.rng, len(shared))


def rows(settings: Settings) -> Iterator[Row]:
    for case in CASES:
        numbers = {}
        for attempts in ATTEMPTS:
            runs = [attempt(case, case.target, attempts, settings, r) for r in _all(settings)]
            up_to = "at the first attempt" if attempts == 1 else f"within {attempts}"
            numbers[f"passes {up_to}"] = share(passed for passed, _, _ in runs)
        numbers["attempts made"] = mean(float(made) for _, made, _ in runs)
        yield Row("true mean below the target", f"{case.name}; target {case.target:g}", numbers)
    for case in CASES:
        if case.name in REACHED:
            for above in ABOVE:
                target = case.true / (1 + above)
                runs = [attempt(case, target, ATTEMPTS[-1], settings, r) for r in _all(settings)]
                yield Row("true mean above the target", f"{case.name}; by {above:.0%}", power(runs))


def power(runs: list[tuple[bool, int, int]]) -> dict[str, Number]:
    """Runs that end with their target, and what they have spent on it."""
    return {
        "passes": share(passed for passed, _, _ in runs),
        "attempts": mean(float(made) for _, made, _ in runs),
        "fresh episodes": mean(float(episodes) for _, _, episodes in runs),
    }


def attempt(
    case: Case, target: float, attempts: int, settings: Settings, replicate: int
) -> tuple[bool, int, int]:
    """One run: it ended with its target or not, its attempts, and their episodes."""
    stop = StopConfig(target=target, rounds=ROUNDS)
    rules = Game(PODS, stop=stop).rules(settings, replicate)
    agents = Fixed(rules, replicate, case.draw)
    board, now, episodes = first_board(rules, 0.0), 0.0, 0
    while board.phase == "running":
        if agents.scored.get("confirm", 0) >= attempts:
            break
        now += 60.0
        reports = [agents.answer(order) for order in orders(board)]
        asked = {order.id for order in board.rescores.values()}
        episodes += sum(len(report.returns) for report in reports if report.order in asked)
        board = fold(board, reports, rules, now=now)
    return board.stop_reason == "target", agents.scored.get("confirm", 0), episodes


def _all(settings: Settings) -> range:
    return range(settings.replicates)

"""Places of algorithms: numbers by hand, and equal algorithms, which keep theirs."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from random import Random
from typing import Any

import pytest

from hpcpod.tournament import scores
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.places import MOST, odds, places
from tests.tournament.world import flat, report, rules

QUOTAS = {"ppo": 6, "sac": 4, "dqn": 2}


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({}, QUOTAS),
        ({"ppo": 0.5, "sac": 0.45, "dqn": 0.05}, QUOTAS),
        ({"ppo": 0.9, "sac": 0.06, "dqn": 0.04}, {"ppo": 7, "sac": 4, "dqn": 1}),
        # of dqn's second place and sac's other three ppo has 4 x .98 / .98
        ({"ppo": 0.98, "sac": 0.01, "dqn": 0.01}, {"ppo": 10, "sac": 1, "dqn": 1}),
        # of 5 places sac has 5 x .7 / 1 = 3.5, dqn 5 x .3 / 1 = 1.5: .5 each, the first has it
        ({"ppo": 0.0, "sac": 0.7, "dqn": 0.3}, {"ppo": 1, "sac": 8, "dqn": 3}),
        # nothing is known of dqn
        ({"ppo": 0.0, "sac": 1.0}, {"ppo": 1, "sac": 9, "dqn": 2}),
    ],
)
def test_places_by_hand(known: dict[str, float], found: dict[str, int]) -> None:
    assert places(QUOTAS, known) == found


def test_a_single_algorithm_has_every_place() -> None:
    assert places({"ppo": 8}, {}) == {"ppo": 8}


def test_the_odds_of_one_that_is_far_ahead() -> None:
    panels = {pod: (3, flat(value, 16)) for pod, value in {"a": 0.0, "b": 0.5, "c": 90.0}.items()}
    found = odds(panels, {"a": "ppo", "b": "ppo", "c": "sac"})
    assert found == {"sac": 1.0, "ppo": 0.0}


def test_algorithms_whose_every_episode_returns_the_same_keep_their_quotas() -> None:
    of = {f"p{i}": "ppo" if i % 2 else "dqn" for i in range(8)}  # as MountainCar-v0's at first
    known = odds({pod: (3, (-200.0,) * 16) for pod in of}, of)
    assert known == pytest.approx({"ppo": 0.5, "dqn": 0.5})
    assert places({"ppo": 4, "dqn": 4}, known) == {"ppo": 4, "dqn": 4}


def test_of_many_pods_the_best_is_among_those_of_the_highest_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time that it takes grows with the cube of their number."""
    asked: list[list[float]] = []

    def noted(means: list[float], *args: Any, **kwargs: Any) -> scores.Posterior:
        asked.append(means)
        return posterior(means, *args, **kwargs)

    posterior = scores.posterior
    monkeypatch.setattr(scores, "posterior", noted)
    of = {f"p{i}": "sac" if i < 3 else "ppo" for i in range(MOST + 10)}
    known = odds({pod: (3, flat(float(pod[1:]), 16)) for pod in of}, of)
    assert asked == [[float(i) for i in range(MOST + 9, 9, -1)]]
    assert known == {"sac": 0.0, "ppo": pytest.approx(1.0)}


@pytest.mark.long
@pytest.mark.parametrize("pods", [(4, 4), (6, 2), (2, 2, 2)])
def test_equal_algorithms_keep_their_quotas(pods: tuple[int, ...]) -> None:
    """The share of panels by which an algorithm of equal ones would lose its places."""
    rng, tries = Random(sum(pods)), 200
    of = {f"{name}{i}": name for name, n in zip("abc", pods, strict=False) for i in range(n)}
    quotas = dict(Counter(of.values()))
    lost = 0
    for _ in range(tries):
        common = [rng.gauss(0, 1) for _ in range(32)]
        panels = {pod: (2, tuple(seed + rng.gauss(0, 1) for seed in common)) for pod in of}
        lost += places(quotas, odds(panels, of)) != quotas
    assert lost / tries <= 0.05 + 3 * sqrt(0.05 * 0.95 / tries)


def test_a_fresh_pod_is_of_the_algorithm_that_may_have_the_best() -> None:
    game = rules(8, {"ppo": 1, "dqn": 1}, controls=0)
    board = first_board(game, 0.0)
    for _ in range(2):
        done = [
            report(order, flat(100.0 * (order.algorithm == "dqn") + int(order.pod[1:]) / 10, 8))
            for order in orders(board)
        ]
        board = fold(board, done, game, now=1.0)
    cohorts = Cohorts(board, game.config, game.algorithms)
    assert cohorts.wanted() == {"ppo": 1, "dqn": 7}
    assert cohorts.heir("ppo") == "dqn"
    assert cohorts.heir("dqn") == "dqn"


def test_before_anything_is_known_a_fresh_pod_is_of_the_algorithm_of_the_dead() -> None:
    game = rules(8, {"ppo": 1, "dqn": 1})
    cohorts = Cohorts(first_board(game, 0.0), game.config, game.algorithms)
    cohorts.members["ppo"] -= 1
    assert cohorts.wanted() == {"ppo": 4, "dqn": 4}
    assert cohorts.heir("ppo") == "ppo"

"""Updaters beside the paired gate: numbers by hand, and how often each errs among equals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from random import Random

import pytest

from hpcpod.config.schema import PopulationConfig
from hpcpod.errors import UserError
from hpcpod.records.records import Board, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.judgement import Updater
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import accept, settle
from hpcpod.tournament.updaters.paired_gate import PairedGate
from hpcpod.tournament.updaters.pareto import Pareto, costs
from hpcpod.tournament.updaters.ranking import Ranking
from hpcpod.tournament.updaters.welch_gate import WelchGate
from tests.tournament.test_updaters import woven
from tests.tournament.world import order_of, report, rules

Panels = Mapping[str, Sequence[float]]
NONE = PopulationConfig()


def verdict_on(
    updater: Updater,
    pod: str,
    panels: Panels,
    *,
    seconds: Mapping[str, Sequence[float]] | None = None,
    metric: Mapping[str, Sequence[float]] | None = None,
) -> Verdict:
    """The verdict on a pod after rounds of which the last has these panels.

    ``seconds`` and ``metric`` have a value for each round, by pod; by default there is one round.
    """
    values = seconds or metric or dict.fromkeys(panels, (1.0,))
    rounds = len(next(iter(values.values())))
    game = rules(len(panels), controls=0, warmup_rounds=rounds - 1)
    board, done = first_board(game, 0.0), []
    for turn in range(rounds):
        done = [
            report(
                order_of(board, name),
                panel,
                wall_seconds=seconds[name][turn] if seconds else 1.0,
                metrics={"energy": metric[name][turn]} if metric else {},
            )
            for name, panel in panels.items()
        ]
        if turn < rounds - 1:
            board = fold(board, done, game, now=1.0)
    board = settle(board, accept(board, done), (), game.config)
    cohorts = Cohorts(board, game.config, game.algorithms)
    return updater.judge(cohorts, next(each for each in done if each.pod == pod))


# --- Welch ---------------------------------------------------------------------------------

NOISY = (0.0, 100.0, -100.0, 50.0)


def test_welch_s_gate_does_not_pair_common_seeds() -> None:
    # each is one better on each seed: the paired difference has no spread, Welch's has it twice
    panels = {"p0001": NOISY, "p0002": tuple(value + 1 for value in NOISY)}
    assert verdict_on(PairedGate(NONE), "p0001", panels).beaten_by == ("p0002",)
    assert verdict_on(WelchGate(NONE), "p0001", panels).beaten_by == ()


@pytest.mark.parametrize(
    ("leader", "beats"),
    [
        # variances 4 / 3 of both, error sqrt(2 * 4 / 3 / 4) = .816 with 6 degrees of freedom:
        # t(6) 1.943 of them are 1.587
        (1.58, False),
        (1.59, True),
    ],
)
def test_welch_s_bound_by_hand(leader: float, beats: bool) -> None:
    test = (-1.0, 1.0, 1.0, -1.0)
    mine = [value + leader for value in (1.0, -1.0, 1.0, -1.0)]
    panels = {"p0001": woven((0.0,) * 4, test), "p0002": woven((9.0,) * 4, mine)}
    verdict = verdict_on(WelchGate(NONE), "p0001", panels)
    assert (verdict.beaten_by == ("p0002",)) is beats
    assert all("on 4 seeds each" in words for words in verdict.evidence.values())


# --- ranking -------------------------------------------------------------------------------


def test_the_ranking_names_every_leader_that_ranks_above_one_of_the_worst() -> None:
    panels = {f"p000{i}": woven((float(i),) * 2, (0.0,) * 2) for i in range(1, 9)}
    verdict = verdict_on(Ranking(NONE), "p0001", panels)
    assert verdict.beaten_by == ("p0008", "p0007")
    assert verdict.evidence["p0007"] == (
        "p0007 7 is number 2 of 8 and p0001 1 among the worst at round 1; no test was made"
    )
    assert verdict_on(Ranking(NONE), "p0002", panels).beaten_by == ()


def test_the_ranking_leaves_pods_alone_that_return_the_same() -> None:
    panels = {f"p000{i}": (3.0, 4.0) for i in range(1, 9)}
    assert verdict_on(Ranking(NONE), "p0001", panels).beaten_by == ()


# --- Pareto --------------------------------------------------------------------------------

BETTER = (5.0, 3.0, 5.0, 3.0)
"""Odd episodes of a leader, of a pod with none: mean 4, sd 1.155, at 2.5 % t(3) 3.182: 2.163."""
SAME = (1.0, -1.0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("test", "its", "mine", "beats"),
    [
        # differences of seconds 9 and 11: mean 10, sd sqrt(2), error 1; t(1) at 5 % 6.314, at 2.5 %
        # 12.706
        (BETTER, (50, 50), (59, 61), False),  # more return, shown to be dearer: 10 - 6.314 > 0
        (BETTER, (50, 50), (55, 57), True),  # mean 6 is not shown
        (BETTER, (50, 50), (41, 39), True),
        (SAME, (50, 50), (41, 39), False),  # cheaper by 10, where 12.706 would be shown
        (SAME, (50, 50), (38, 36), True),  # by 13
        ((-5.0, -3.0, -5.0, -3.0), (50, 50), (38, 36), False),  # cheaper, but returns less
        (SAME, (50, 50), (50, 50), False),
    ],
)
@pytest.mark.parametrize("aim", ["seconds", "energy"])
def test_pareto_beats_by_one_aim_without_loss_in_the_other(
    test: Sequence[float], its: Sequence[float], mine: Sequence[float], beats: bool, aim: str
) -> None:
    panels = {"p0001": woven((0.0,) * 4, (0.0,) * 4), "p0002": woven((9.0,) * 4, test)}
    values = {"p0001": its, "p0002": mine}
    updater = Pareto(replace(NONE, cost=aim))
    if aim == "seconds":
        verdict = verdict_on(updater, "p0001", panels, seconds=values)
    else:
        verdict = verdict_on(updater, "p0001", panels, metric=values)
    assert (verdict.beaten_by == ("p0002",)) is beats


def test_pareto_refuses_a_metric_that_no_round_has() -> None:
    panels = {"p0001": woven((0.0,) * 4, (0.0,) * 4), "p0002": woven((9.0,) * 4, BETTER)}
    values = {"p0001": (5.0, 5.0, 5.0), "p0002": (3.0, 3.0, 3.0)}
    misspelt = Pareto(replace(NONE, cost="enrgy"))
    with pytest.raises(UserError, match=r"no round has a metric 'enrgy'; there are energy$"):
        verdict_on(misspelt, "p0001", panels, metric=values)
    first = {name: each[:1] for name, each in values.items()}  # it may have had no update
    assert verdict_on(misspelt, "p0001", panels, metric=first).round == 1


def test_pareto_says_both_tests() -> None:
    panels = {"p0001": woven((0.0,) * 4, (0.0,) * 4), "p0002": woven((9.0,) * 4, BETTER)}
    cost = {"p0001": (50.0, 50.0), "p0002": (38.0, 36.0)}
    words = verdict_on(Pareto(NONE), "p0001", panels, seconds=cost).evidence["p0002"]
    assert words == (
        "p0002 4 over p0001 0 at round 2 on 4 common seeds that did not rank them: mean difference"
        " 4, lower bound 2.16261 at 2.5 %; p0001 costs 13 seconds a round more than p0002 on 2"
        " common rounds, lower bound 0.2938 at 2.5 %"
    )


def test_a_cost_that_nothing_is_known_of_decides_nothing() -> None:
    panels = {"p0001": woven((0.0,) * 4, (0.0,) * 4), "p0002": woven((9.0,) * 4, BETTER)}
    updater = Pareto(replace(NONE, cost="energy"))
    assert verdict_on(updater, "p0001", panels).beaten_by == ("p0002",)


def test_the_cost_of_a_round_is_a_pod_s_own() -> None:
    game = rules(4, controls=0)
    board = first_board(game, 0.0)
    for turn in range(5):
        for order in orders(board):
            value = float(order.pod[1:])
            done = report(order, [value, value] * 2, wall_seconds=10.0 * (turn + 1))
            board = fold(board, [done], game, now=1.0)
    first = board.pods["p0004"]
    # after round 5 of 10, 20, 30, 40, 50 slot-seconds
    assert costs(first, 9, "seconds") == {2: 20.0, 3: 30.0, 4: 40.0, 5: 50.0}
    assert costs(first, 3, "seconds") == {1: 10.0, 2: 20.0, 3: 30.0}
    child = next(pod for pod in board.living if pod.cause == "copy" and pod.history)
    assert min(costs(child, 9, "seconds"), default=9) > child.parent_round


# --- the null ------------------------------------------------------------------------------


def share_beaten(updater: Updater, pods: int, tries: int, common: float) -> float:
    """The share of tests that beat the worst of equal pods.

    ``common`` of the variance of a return is the seed's; the rounds of all cost the same, but for
    noise.
    """
    rng = Random(pods)
    beaten = 0
    for _ in range(tries):
        seeds = [rng.gauss(0, sqrt(common)) for _ in range(32)]
        names = [f"p{i:04d}" for i in range(1, pods + 1)]
        panels = {
            name: tuple(shared + rng.gauss(0, sqrt(1 - common)) for shared in seeds)
            for name in names
        }
        seconds = {name: [rng.gauss(60, 5) for _ in range(2)] for name in names}
        worst = min(panels, key=lambda name: sum(panels[name][0::2]))
        beaten += bool(verdict_on(updater, worst, panels, seconds=seconds).beaten_by)
    return beaten / tries


@pytest.mark.long
@pytest.mark.parametrize("pods", [3, 8])
@pytest.mark.parametrize(
    ("updater", "common", "low", "high"),
    [
        (PairedGate, 0.5, 0.0, 0.05),
        (WelchGate, 0.0, 0.0, 0.05),
        (WelchGate, 0.5, 0.0, 0.03),  # what is common is not taken out: it errs less
        (Pareto, 0.5, 0.0, 0.05),
        (Ranking, 0.5, 1.0, 1.0),
    ],
)
def test_among_equal_pods_each_finds_as_often_as_it_says(
    updater: type[PairedGate], common: float, low: float, high: float, pods: int
) -> None:
    tries = 300
    found = share_beaten(updater(NONE), pods, tries, common)
    error = 3 * sqrt(high * (1 - high) / tries)  # three standard errors of a share
    assert low <= found <= high + error


@pytest.mark.parametrize("name", ["paired_gate", "welch_gate", "ranking", "pareto"])
def test_a_run_by_each_replaces_a_pod_that_is_worse(name: str) -> None:
    game = rules(8, controls=0)
    population = replace(game.config.population, updater=name)
    game = Rules.of(replace(game.config, population=population), game.algorithms)
    board: Board = first_board(game, 0.0)
    rng = Random(1)
    for _ in range(4):
        done = [
            report(order, [rng.gauss(-9.0 * (order.pod == "p0001"), 1) for _ in range(16)])
            for order in orders(board)
        ]
        board = fold(board, done, game, now=1.0)
    assert board.pods["p0001"].fate == "replaced"

"""The paired gate: beaten only beyond doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hpcpod.records import Board, Report, Verdict
from hpcpod.tournament.census import Census
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.outcomes import accept, settle
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.updaters import PairedGate
from tests.tournament.world import failed, order_of, report, rules


def judge(game: Rules, returns: Mapping[str, tuple[float, ...]], pod: str) -> Verdict:
    """The verdict on a pod when all have reported their first round."""
    board: Board = first_board(game, 0.0)
    reports = [report(order_of(board, name), sample) for name, sample in returns.items()]
    board = settle(board, accept(board, reports), (), game.config)
    census = Census(board, game.config, game.algorithms)
    return PairedGate(game.config.population).judge(
        census, next(each for each in reports if each.pod == pod)
    )


def test_a_constant_lead_on_common_seeds_beats_however_noisy_the_seeds_are() -> None:
    game = rules(2, controls=0, warmup_rounds=0)
    noisy = (0.0, 100.0, -100.0, 50.0)
    verdict = judge(game, {"p0001": noisy, "p0002": tuple(r + 1 for r in noisy)}, "p0001")
    assert (verdict.beaten_by, verdict.round) == (("p0002",), 1)
    assert verdict.evidence["p0002"] == (
        "p0002 13.5 over p0001 12.5 at round 1 on 4 common seeds: mean difference 1, lower bound 1"
    )


@pytest.mark.parametrize(
    ("leader", "beats"),
    [
        # D = 3 1 3 1: mean 2, sd 1.155, t(3) 2.353, bound 2 - 2.353 * 1.155 / 2 = .641
        ((3.0, 1.0, 3.0, 1.0), True),
        # D = 2 0 2 0: mean 1, bound 1 - 2.353 * 1.155 / 2 = -.359; a normal's 1.645 would pass
        ((2.0, 0.0, 2.0, 0.0), False),
        # D = 3 -1 2 0: mean 1, sd 1.826, bound 1 - 2.353 * 1.826 / 2 = -1.148
        ((3.0, -1.0, 2.0, 0.0), False),
        ((0.0, 0.0, 0.0, 0.0), False),
    ],
)
def test_the_bound_of_the_mean_difference_must_exceed_zero(
    leader: tuple[float, ...], beats: bool
) -> None:
    game = rules(2, controls=0, warmup_rounds=0)
    verdict = judge(game, {"p0001": (0.0,) * 4, "p0002": leader}, "p0001")
    assert (verdict.beaten_by == ("p0002",)) is beats


def test_panels_of_different_length_are_not_compared() -> None:
    game = rules(2, controls=0, warmup_rounds=0)
    verdict = judge(game, {"p0001": (0.0,) * 3, "p0002": (9.0,) * 4}, "p0001")
    assert verdict.beaten_by == ()


def test_only_the_worst_are_tested_and_only_against_the_best() -> None:
    game = rules(8, controls=0, warmup_rounds=0)
    returns = {f"p000{i}": (float(i),) * 4 for i in range(1, 9)}
    assert judge(game, returns, "p0001").beaten_by == ("p0008", "p0007")
    assert judge(game, returns, "p0002").beaten_by == ()


def test_the_leaderboard_admits_a_pods_best_evaluation() -> None:
    game = rules(2, controls=0)
    assert judge(game, {"p0001": (1.0, 2.0)}, "p0001") == Verdict(admit=True)


def test_the_leaderboard_admits_nothing_worse_than_a_pods_best() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0001"), (3.0, 4.0))], game, now=1.0)
    worse = report(order_of(board, "p0001"), (1.0, 2.0))
    board = settle(board, accept(board, [worse]), (), game.config)
    census = Census(board, game.config, game.algorithms)
    assert PairedGate(game.config.population).judge(census, worse) == Verdict(admit=False)


def test_every_finished_round_is_judged_and_nothing_else() -> None:
    class Listening(PairedGate):
        def judge(self, census: Census, report: Report) -> Verdict:
            heard.append(report.order)
            return super().judge(census, report)

    heard: list[str] = []
    game = rules(4, max_restarts=9)
    game = replace(game, updater=Listening(game.config.population))
    board = first_board(game, 0.0)
    one, two, three, _ = orders(board)
    board = fold(board, [report(two), failed(one), failed(three, "diverged")], game, now=1.0)
    assert heard == [two.id]
    board = fold(board, [failed(order_of(board, two.pod))], game, now=2.0)
    assert heard == [two.id]

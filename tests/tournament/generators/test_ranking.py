"""Ranking: the worst copies the best, once per round, without a test."""

from __future__ import annotations

from hpcpod.tournament.leaderboard import first_board, fold
from tests.tournament.generators.play import births, by_place, game, played
from tests.tournament.world import flat, order_of, report


def test_once_per_round_the_worst_gives_way_to_the_best() -> None:
    # p0001 is the control; a child begins as its place's founder did
    board = played(game("ranking"), 4, by_place)
    assert births(board) == {
        "p0002": ("p0008", 2),
        "p0009": ("p0008", 3),
        "p0010": ("p0008", 4),
    }


def test_no_test_is_asked_for_and_equals_stay() -> None:
    rules = game("ranking", warmup_rounds=0)
    # the difference is a hundredth of a return's spread
    board = played(rules, 1, lambda board, order: 0.01 * by_place(board, order))
    assert births(board) == {"p0002": ("p0008", 1)}
    assert births(played(rules, 5, lambda board, order: 3.0)) == {}


def test_the_whole_panel_ranks() -> None:
    rules = game("ranking", 3, warmup_rounds=0, controls=0)
    board = first_board(rules, 0.0)
    panels = {"p0001": flat(5.0), "p0002": (0.0, 12.0, 0.0, 12.0), "p0003": (9.0, 0.0, 9.0, 0.0)}
    # by the even episodes, which rank where there is a test, p0002 is worst and p0003 best
    reports = [report(order_of(board, name), panel) for name, panel in panels.items()]
    assert births(fold(board, reports, rules, now=1.0)) == {"p0003": ("p0002", 1)}

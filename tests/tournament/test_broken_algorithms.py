"""Algorithms that raise the same exception in each pod's first round."""

from __future__ import annotations

import pytest

from hpcpod.records.records import Board, Order
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from tests.tournament.world import failed, order_of, report, rules

MIXED = {"ppo": 1, "dqn": 1}


def raise_all(board: Board, game: Rules, why: str = "ValueError: no way", *of: str) -> Board:
    """Each open order of these pods, or of all, raises."""
    mine = [order for order in orders(board) if not of or order.pod in of]
    return fold(board, [failed(order, "raised", why) for order in mine], game, now=1.0)


def test_a_run_whose_pods_raise_the_same_twice_each_has_failed() -> None:
    game = rules(8, max_restarts=3)
    board = raise_all(first_board(game, 0.0), game)
    assert board.phase == "running"
    board = raise_all(board, game)
    assert (board.phase, board.stop_reason, board.reports) == ("finished", "failed", 16)
    assert board.failure == (
        "8 pods failed, and none has finished a round; p0008 ppo, round 1, attempt 2 on s1 failed:"
        " ValueError: no way"
    )
    assert board.pods["p0001"].fate_reason == (
        "each pod of ppo raised the same in its first round: round 1, attempt 2 on s1 failed:"
        " ValueError: no way"
    )


def test_the_places_of_a_broken_algorithm_go_to_the_others() -> None:
    game = rules(8, MIXED, max_restarts=3)
    board = first_board(game, 0.0)
    ppo = [pod.id for pod in board.living if pod.algorithm == "ppo"]
    for _ in range(2):
        board = raise_all(board, game, "ValueError: no way", *ppo)
    assert board.phase == "running"
    assert [board.pods[pod].fate for pod in ppo] == ["failed"] * 4
    assert [pod.algorithm for pod in board.living] == ["dqn"] * 8
    for _ in range(20):  # whatever happens later, it never comes back
        board = fold(board, [failed(order) for order in orders(board)], game, now=1.0)
        assert {pod.algorithm for pod in board.living} <= {"dqn"}


def alike(order: Order, attempt: int) -> str:
    return f"RuntimeError: shape [{order.pod[1:]}, -{attempt}.5e3] at 0x{attempt}fA"


def test_exceptions_that_differ_in_numbers_are_the_same() -> None:
    game = rules(4, max_restarts=3)
    board = first_board(game, 0.0)
    for attempt in range(2):
        reports = [failed(order, "raised", alike(order, attempt)) for order in orders(board)]
        board = fold(board, reports, game, now=1.0)
    assert board.stop_reason == "failed"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("crash", ["gone", "gone", "gone", "gone"]),  # a machine's fault may be mended
        ("memory", ["too big"] * 4),
        ("raised", ["ValueError: a", "ValueError: a", "ValueError: a", "ValueError: b"]),
        ("raised", ["ValueError: a", "ValueError: a", "ValueError: a", None]),
    ],
)
def test_nothing_is_given_up_that_may_yet_go_well(kind: str, words: list[str | None]) -> None:
    game = rules(4, max_restarts=3)
    board = first_board(game, 0.0)
    for _ in range(3):
        reports = [
            failed(order_of(board, f"p{number:04d}"), kind, word)
            for number, word in enumerate(words, start=1)
            if word is not None
        ]
        board = fold(board, reports, game, now=1.0)
    assert (board.phase, len(board.living)) == ("running", 4)


def test_a_pod_that_was_killed_meanwhile_has_not_raised_the_same_each_time() -> None:
    game = rules(2, max_restarts=5)
    board = raise_all(first_board(game, 0.0), game)
    board = fold(board, [failed(order) for order in orders(board)], game, now=1.0)
    board = raise_all(raise_all(board, game), game)
    assert (board.phase, len(board.living)) == ("running", 2)


def test_an_algorithm_that_has_trained_a_round_is_not_broken() -> None:
    game = rules(4, max_restarts=1)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0001"))], game, now=1.0)
    for _ in range(6):
        board = raise_all(board, game)
    assert (board.phase, len(board.living)) == ("running", 4)


def test_a_first_round_that_failed_is_tried_again_when_all_were_tried() -> None:
    game = rules(4, max_restarts=3)
    board = raise_all(first_board(game, 0.0), game, "ValueError: no way", "p0001", "p0003")
    assert [order.pod for order in orders(board)] == ["p0002", "p0004", "p0001", "p0003"]

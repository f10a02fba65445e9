"""Cohorts: who is compared with whom, and when."""

from __future__ import annotations

from hpcpod.records import Board
from hpcpod.tournament.census import Census
from hpcpod.tournament.leaderboard import first_board, fold
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, flat, order_of, play_round, report, rules


def census(board: Board, game: Rules) -> Census:
    return Census(board, game.config, game.algorithms)


def answer(board: Board, game: Rules, *pods: str) -> Board:
    """These pods finish a round, one merge each."""
    for pod in pods:
        order = order_of(board, pod)
        board = fold(board, [report(order, flat(by_number(order)))], game, now=1.0)
    return board


def test_a_cohort_needs_more_than_half_of_the_living() -> None:
    game = rules(4, warmup_rounds=0)
    board = answer(first_board(game, 0.0), game, "p0001", "p0002")
    assert census(board, game).due(board.pods["p0001"]) is None
    board = answer(board, game, "p0003")
    assert census(board, game).due(board.pods["p0001"]) == 1


def test_nobody_is_compared_during_the_warm_up() -> None:
    game = rules(4, warmup_rounds=1)
    board = play_round(first_board(game, 0.0), game, by_number)
    assert census(board, game).due(board.pods["p0001"]) is None
    assert census(board, game).latest() is None


def test_who_reports_first_is_compared_one_report_later() -> None:
    """The known defect of asynchronous truncation: only a round's last reporters could lose."""
    game = rules(4, warmup_rounds=0)
    board = answer(first_board(game, 0.0), game, "p0002", "p0001", "p0003", "p0004")
    # p0002 and p0001 were too early; p0003 completed the quorum
    assert [board.pods[f"p000{i}"].judged for i in (1, 2, 3, 4)] == [0, 0, 1, 1]
    board = answer(board, game, "p0001")
    assert board.pods["p0001"].judged == 1
    board = answer(board, game, "p0002")
    # now the worst that may be replaced is p0002, for p0001 is the control
    assert (board.pods["p0002"].fate, board.pods["p0002"].judged) == ("replaced", 1)


def test_a_round_is_compared_only_once() -> None:
    game = rules(4, warmup_rounds=0)
    board = play_round(first_board(game, 0.0), game, lambda order: 0.0)
    assert all(census(board, game).due(pod) is None for pod in board.living)


def test_the_best_are_30_percent_and_the_worst_an_eighth() -> None:
    game = rules(10, warmup_rounds=1)
    board = play_round(first_board(game, 0.0), game, by_number)
    cohort = census(board, game).cohort(1)
    assert cohort.best == ("p0010", "p0009", "p0008")
    # p0001 is the control: it is worse, but may not be replaced
    assert cohort.worst == {"p0002", "p0003"}
    assert cohort.places == 2


def test_the_last_of_an_algorithm_is_not_among_the_worst() -> None:
    game = rules(4, {"ppo": 3, "dqn": 1}, controls=0)
    board = play_round(first_board(game, 0.0), game, lambda order: order.algorithm == "ppo")
    (dqn,) = (pod for pod in board.living if pod.algorithm == "dqn")
    assert dqn.id not in census(board, game).cohort(1).worst


def test_the_dead_are_in_no_cohort() -> None:
    game = rules(4, warmup_rounds=0)
    board = play_round(first_board(game, 0.0), game, by_number)
    (replaced,) = (pod.id for pod in board.pods.values() if pod.fate == "replaced")
    assert replaced not in census(board, game).cohort(1).evaluations

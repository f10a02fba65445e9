"""Ends of runs: the target's test, the limits, the final evaluation."""

from __future__ import annotations

import pytest

from hpcpod.config.schema import EnsemblesConfig, StopConfig
from hpcpod.records.records import Board, Rescore
from hpcpod.tournament.confirmation import highest_target
from hpcpod.tournament.leaderboard import begin, first_board, fold, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.statistics import chosen_interval, interval, spent
from hpcpod.tournament.stopping import FINALS_FIRST, allowed, leader
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules

ALONE = EnsemblesConfig(rules=())


def rescores(board: Board) -> list[Rescore]:
    return [order for order in orders(board) if isinstance(order, Rescore)]


def play(game: Rules, rounds: int) -> Board:
    board = first_board(game, 0.0)
    for _ in range(rounds):
        board = play_round(board, game, by_number)
    return board


def in_finals(finalists: int = 2) -> tuple[Rules, Board]:
    """A run of four pods whose rounds are over: p0004 leads, then p0003."""
    game = rules(4, stop=StopConfig(rounds=1, finalists=finalists, ensembles=ALONE))
    return game, play(game, 1)


def reported(board: Board, game: Rules, value: float, now: float) -> Board:
    """The run whose delivered policy has played the report set."""
    (order,) = rescores(board)
    assert order.purpose == "report"
    return fold(board, [report(order, flat(value))], game, now=now)


# --- the target ----------------------------------------------------------------------------


def test_the_best_candidate_is_confirmed_on_fresh_seeds() -> None:
    board = play(rules(4, stop=StopConfig(target=3.0)), 1)
    (rescore,) = rescores(board)
    assert (rescore.id, rescore.number, rescore.round) == ("p0004-confirm1-1", 1, 1)
    assert rescore.checkpoint.core == "core of p0004-00001-1"
    assert (board.attempts, board.phase) == (1, "running")


def test_nobody_is_confirmed_below_the_target() -> None:
    board = play(rules(4, stop=StopConfig(target=99.0)), 3)
    assert (rescores(board), board.attempts) == ([], 0)


def test_a_confirmed_target_ends_the_run() -> None:
    game = rules(4, stop=StopConfig(target=3.0))
    board = play(game, 1)
    board = fold(board, [report(rescores(board)[0], (3.9,) * 128)], game, now=7.0)
    assert (board.phase, board.stop_reason, board.stopped, board.winner) == (
        "finished", "target", 7.0, "p0004",
    )  # fmt: skip
    assert orders(board) == []
    assert board.confirmed[0].passed
    assert leader(board) == board.confirmed[0]


def test_the_mean_over_the_target_is_not_enough() -> None:
    game = rules(4, stop=StopConfig(target=3.0))
    board = play(game, 1)
    board = fold(board, [report(rescores(board)[0], (0.0, 6.02) * 8)], game, now=7.0)
    (score,) = board.confirmed
    assert (score.mean, score.passed, board.phase) == (3.01, False, "running")
    assert score.low < 3.0


def test_attempts_at_another_checkpoint_spend_less() -> None:
    game = rules(4, stop=StopConfig(target=2.4, alpha=0.05))
    board = play(game, 1)
    levels = []
    while rescores(board):
        (order,) = rescores(board)
        levels.append(order.level)
        board = fold(board, [report(order, flat(0.0))], game, now=1.0)
    assert levels == [0.05 / 2, 0.05 / 6]
    assert board.attempts == 2
    assert sum(spent(0.05, k) for k in range(1, 1000)) < 0.05


def test_no_attempt_is_spent_on_who_would_rather_fail() -> None:
    # p0004's panel is 3 and 5 by turns; the worst that the run has seen is 0. At a target of 3.97
    # it would take more episodes than an attempt has.
    board = play(rules(4, stop=StopConfig(target=3.97)), 1)
    assert (rescores(board), board.attempts) == ([], 0)
    assert board.entries[0].mean > 3.97
    board = play(rules(4, stop=StopConfig(target=3.6)), 1)
    assert (len(rescores(board)), board.attempts) == (1, 1)


def test_a_target_at_the_ceiling_of_returns_is_told_from_one_that_can_be_shown() -> None:
    stop = StopConfig(target=4.0)
    board = play(rules(4, stop=stop), 1)
    highest = highest_target(board, stop)
    assert (rescores(board), board.attempts) == ([], 0)
    assert highest is not None and 3.9 < highest < 4.0
    assert rescores(play(rules(4, stop=StopConfig(target=highest)), 1))
    assert not rescores(play(rules(4, stop=StopConfig(target=highest + 0.001)), 1))
    for target in (3.0, 99.0, None):  # tried, reached by nobody, not asked for
        stop = StopConfig(target=target, rounds=9)
        assert highest_target(play(rules(4, stop=stop), 1), stop) is None


def test_a_checkpoint_is_tried_only_once_and_one_at_a_time() -> None:
    game = rules(4, stop=StopConfig(target=2.6))
    board = play(game, 1)
    tried = []
    while rescores(board):
        (order,) = rescores(board)
        tried.append(order.checkpoint.core)
        board = fold(board, [report(order, flat(0.0))], game, now=1.0)
    # p0004 and p0003 promise 2.6; nobody else does
    assert tried == ["core of p0004-00001-1", "core of p0003-00001-1"]
    assert board.attempts == 2


def test_sets_of_fresh_episodes_are_pooled_until_they_decide() -> None:
    game = rules(4, stop=StopConfig(target=3.6, confirm_episodes=16))
    board = play(game, 1)
    seen = []
    while board.phase == "running":
        (order,) = rescores(board)
        seen.append((order.id, order.number, len(order.earlier), order.level))
        board = fold(board, [report(order, flat(4.0, 16))], game, now=1.0)
    # one checkpoint, one level, new seeds each time
    assert seen[:3] == [
        ("p0004-confirm1-1", 1, 0, 0.025), ("p0004-confirm2-1", 2, 16, 0.025),
        ("p0004-confirm3-1", 3, 32, 0.025),
    ]  # fmt: skip
    assert (board.stop_reason, board.attempts, board.confirmations) == (
        "target", 1, len(seen),
    )  # fmt: skip
    assert [score.episodes for score in board.confirmed] == [
        16 * k for k in range(1, len(seen) + 1)
    ]
    assert [score.passed for score in board.confirmed] == [False] * (len(seen) - 1) + [True]
    assert board.confirmed[-1].low >= 3.6


def test_an_attempt_that_can_not_pass_any_more_is_given_up() -> None:
    game = rules(4, stop=StopConfig(target=3.6, confirm_episodes=64))
    board = play(game, 1)
    board = fold(board, [report(rescores(board)[0], flat(3.55, 64))], game, now=1.0)
    assert (rescores(board), len(board.confirmed)) == ([], 1)


def test_the_worst_return_of_the_run_is_remembered() -> None:
    game = rules(4, stop=StopConfig(target=3.6))
    board = play(game, 1)
    assert board.worst == 0.0  # p0001: 0 and 2
    board = fold(board, [report(rescores(board)[0], (-7.0, 3.0))], game, now=1.0)
    assert board.worst == -7.0


def test_a_rescore_that_fails_is_tried_again_and_then_given_up() -> None:
    game = rules(4, stop=StopConfig(target=3.5), max_restarts=1)
    board = play(game, 1)
    board = fold(board, [failed(rescores(board)[0])], game, now=1.0)
    assert rescores(board)[0].id == "p0004-confirm1-2"
    board = fold(board, [failed(rescores(board)[0])], game, now=1.0)
    assert rescores(board) == []
    assert [(c.episodes, c.passed) for c in board.confirmed] == [(0, False)]


def test_a_lost_rescore_is_given_out_again() -> None:
    game = rules(4, stop=StopConfig(target=3.0))
    board = play(game, 1)
    board = fold(board, [], game, now=1.0, lost=[rescores(board)[0].id])
    assert rescores(board)[0].id == "p0004-confirm1-2"


def test_a_candidate_that_can_not_be_read_leaves_the_board() -> None:
    game = rules(4, stop=StopConfig(target=3.5))
    board = play(game, 1)
    board = fold(board, [failed(rescores(board)[0], "corrupt")], game, now=1.0)
    assert [entry.pod for entry in board.entries] == ["p0003", "p0002", "p0001"]


# --- the limits ----------------------------------------------------------------------------


def test_a_run_ends_when_all_have_trained_their_rounds() -> None:
    game = rules(4, stop=StopConfig(rounds=2))
    board = play(game, 1)
    assert board.phase == "running"
    board = play_round(board, game, by_number, now=9.0)
    assert (board.phase, board.stop_reason, board.stopped) == ("finals", "rounds", 9.0)


def test_a_run_ends_when_its_steps_are_spent() -> None:
    game = rules(4, stop=StopConfig(env_steps=700))
    assert play(game, 1).phase == "running"
    board = play(game, 2)
    assert (board.phase, board.stop_reason, board.env_steps) == ("finals", "env_steps", 800)


def test_a_run_ends_when_its_time_is_up() -> None:
    game = rules(4, stop=StopConfig(minutes=2))
    board = begin(first_board(game, 0.0), 500.0)
    board = play_round(board, game, by_number, now=619.0)
    assert (board.began, board.phase) == (500.0, "running")
    board = fold(board, [], game, now=620.0)
    assert (board.phase, board.stop_reason) == ("finals", "minutes")
    assert all(pod.birth is None for pod in board.living)


def test_the_queue_before_the_first_slot_costs_no_time() -> None:
    game = rules(4, stop=StopConfig(minutes=2))
    waiting = first_board(game, 0.0)
    assert fold(waiting, [], game, now=1e6) == waiting
    assert play_round(waiting, game, by_number, now=1e6).began == 1e6  # a report says it too


def test_a_run_that_has_begun_or_ended_does_not_begin() -> None:
    game = rules(4)
    board = begin(first_board(game, 0.0), 5.0)
    assert begin(board, 6.0) == board
    ended = fold(first_board(game, 0.0), [], game, now=5.0, stop="user")
    assert begin(ended, 6.0) == ended


def test_a_run_without_a_single_result_ends_without_a_winner() -> None:
    game = rules(4, stop=StopConfig(minutes=2))
    board = fold(begin(first_board(game, 0.0), 0.0), [], game, now=120.0)
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "minutes", None)


def test_a_run_in_which_everything_fails_has_failed() -> None:
    game = rules(4, {"ppo": 1, "dqn": 1}, max_restarts=0)
    board = first_board(game, 0.0)
    merges = 0
    while board.phase == "running":
        board = fold(board, [failed(order) for order in orders(board)], game, now=1.0)
        merges += 1
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "failed", None)
    dead = sorted(pod.id for pod in board.pods.values() if pod.fate == "failed")
    last = board.pods[dead[-1]]
    assert board.failure == (
        f"{len(dead)} pods failed, and none has finished a round; {last.id} {last.algorithm},"
        " round 1, attempt 1 on s1 failed: it broke"
    )
    deaths = len(dead)
    assert 3 * 4 < deaths <= 5 * 4
    assert merges < 10


def test_one_success_keeps_a_run_that_fails_alive() -> None:
    game = rules(2, max_restarts=0)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0001"))], game, now=1.0)
    for _ in range(30):
        board = fold(board, [failed(order) for order in orders(board)], game, now=1.0)
    assert (board.phase, len(board.living)) == ("running", 2)


@pytest.mark.parametrize(
    ("algorithms", "reason", "left"),
    [({"ppo": 1, "sac": 1}, "rounds", 4), ({"sac": 1}, "failed", 0)],
)
def test_a_run_of_so_many_rounds_ends_though_an_algorithm_never_comes_to_the_last(
    algorithms: dict[str, float], reason: str, left: int
) -> None:
    """Each pod that took the place of a failed one had its rounds before it, for ever."""
    game = rules(4, algorithms, stop=StopConfig(rounds=4))
    steps, board = game.config.round.env_steps, first_board(game, 0.0)
    for _ in range(100):
        answers = [
            failed(order, "diverged")
            if (order.algorithm, order.round) == ("sac", 3)
            else report(order, trained_steps=steps)
            for order in orders(board)
        ]
        board = fold(board, answers, game, now=1.0)
    assert (board.phase, board.stop_reason, len(board.living)) == ("finished", reason, left)
    assert board.winner is not None
    if reason == "failed":
        assert "pods failed, and none is left; p00" in board.failure


def test_the_user_ends_a_run_at_once() -> None:
    game = rules(4)
    board = fold(play(game, 2), [], game, now=9.0, stop="user")
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "user", "p0004")
    assert orders(board) == []


def test_a_user_may_wait_for_the_finalists_scores() -> None:
    game = rules(4, stop=StopConfig(target=3.5, finalists=2, ensembles=ALONE))
    board = play(game, 1)
    assert [order.id for order in rescores(board)] == ["p0004-confirm1-1"]
    board = fold(board, [], game, now=9.0, stop=FINALS_FIRST)
    assert (board.phase, board.stop_reason, board.stopped) == ("finals", "user", 9.0)
    assert [order.id for order in orders(board)] == ["p0003-final0-1", "p0004-final0-1"]
    scores = [report(order, flat(by_number(order))) for order in orders(board)]
    board = reported(fold(board, scores, game, now=10.0), game, 4.0, 11.0)
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "user", "p0004")


def test_a_user_who_does_not_wait_any_more_has_what_there_is() -> None:
    game = rules(4, stop=StopConfig(finalists=2))
    board = fold(play(game, 1), [], game, now=9.0, stop=FINALS_FIRST)
    board = fold(board, [], game, now=10.0, stop="user")
    assert (board.phase, board.winner) == ("finished", "p0004")
    nothing = fold(first_board(game, 0.0), [], game, now=1.0, stop=FINALS_FIRST)
    assert (nothing.phase, nothing.stop_reason) == ("finished", "user")


def test_a_confirmation_that_is_open_at_the_limit_is_heard_first() -> None:
    game = rules(4, stop=StopConfig(target=3.5, rounds=1, finalists=2))
    board = play(game, 1)
    assert (board.phase, [o.id for o in orders(board)]) == ("finals", ["p0004-confirm1-1"])
    passed = fold(board, [report(orders(board)[0], flat(9.0, 64))], game, now=2.0)
    assert (passed.phase, passed.stop_reason) == ("finished", "target")
    missed = fold(board, [report(orders(board)[0], flat(0.0, 16))], game, now=2.0)
    assert (missed.phase, missed.stop_reason) == ("finals", "rounds")
    assert [o.id for o in orders(missed)] == ["p0003-final0-1", "p0004-final0-1"]


# --- the finals ----------------------------------------------------------------------------


def test_the_winner_is_the_best_on_fresh_seeds_not_on_the_board() -> None:
    game, board = in_finals()
    assert [order.id for order in orders(board)] == ["p0003-final0-1", "p0004-final0-1"]
    board = fold(board, [report(order_of(board, "p0004"), flat(1.0))], game, now=2.0)
    assert board.phase == "finals"
    board = fold(board, [report(order_of(board, "p0003"), flat(2.0))], game, now=3.0)
    assert board.phase == "finals"
    board = reported(board, game, 2.0, 4.0)
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "rounds", "p0003")
    assert board.stopped == 1.0
    assert not any(score.passed for score in board.confirmed)


def test_finals_decide_by_the_mean_and_claim_by_the_interval() -> None:
    game, board = in_finals()
    lucky, steady = (0.0, 100.0, 0.0, 100.0), (40.0, 41.0, 40.0, 41.0)
    answers = [report(order_of(board, "p0004"), lucky), report(order_of(board, "p0003"), steady)]
    board = fold(board, answers, game, now=2.0)
    while board.finals.stage == "select":  # too far apart to tell yet
        answers = [report(order, lucky if order.pod == "p0004" else steady)
                   for order in rescores(board)]  # fmt: skip
        board = fold(board, answers, game, now=2.0)
    board = reported(board, game, 30.0, 3.0)
    assert board.winner == "p0004"
    score = next(each for each in board.confirmed if each.pod == "p0004")
    # of two finalists: at 97.5 % each
    whole = lucky * (score.episodes // 4)
    expected = chosen_interval(50.0, interval(whole)[0], score.episodes, 2, 0.0)
    assert (score.low, score.high) == pytest.approx(expected)


def test_finals_wait_for_their_scores_through_a_full_queue_and_lost_slots() -> None:
    game, board = in_finals()
    month = 30 * 24 * 3600.0
    assert fold(board, [], game, now=month) == board
    board = fold(board, [], game, now=month, lost=[order_of(board, "p0003").id])
    assert order_of(board, "p0003").id == "p0003-final0-2"
    board = fold(board, [report(order_of(board, "p0003"), flat(9.0))], game, now=2 * month)
    assert board.phase == "finals"
    board = fold(board, [report(order_of(board, "p0004"), flat(1.0))], game, now=3 * month)
    board = fold(board, [], game, now=3 * month, lost=[order_of(board, "p0003").id])
    assert order_of(board, "p0003").id == "p0003-report0-2"
    board = reported(board, game, 9.0, 4 * month)
    assert (board.phase, board.winner, board.stopped) == ("finished", "p0003", 1.0)


def test_finals_that_all_fail_end_with_the_leaderboard() -> None:
    game, board = in_finals()
    while board.phase == "finals":
        board = fold(board, [failed(order) for order in orders(board)], game, now=2.0)
    assert (board.winner, [c.episodes for c in board.confirmed]) == ("p0004", [0, 0])


def test_the_user_ends_finals_with_the_scores_that_are_there() -> None:
    game, board = in_finals()
    board = fold(board, [report(order_of(board, "p0003"), flat(0.0))], game, now=2.0)
    board = fold(board, [], game, now=3.0, stop="user")
    assert (board.phase, board.stop_reason, board.winner) == ("finished", "rounds", "p0003")


def test_the_interval_of_a_row_allows_for_all_evaluations_and_the_worst_episode() -> None:
    board = play(rules(4), 5)
    first = board.entries[0]
    low, high, candidates = allowed(board, first)
    assert (candidates, board.worst) == (20, 0.0)  # p0001 returns 0 and 2
    assert (low, high) == chosen_interval(first.mean, first.low, 4, 20, 0.0)
    assert low < first.low and high > first.high

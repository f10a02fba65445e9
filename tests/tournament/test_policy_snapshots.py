"""Policy snapshots, by hand: their times, the leader at each, the orders that score them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from hpcpod.config.schema import SnapshotsConfig, StopConfig
from hpcpod.records.checkpoints import Checkpoint, Segment
from hpcpod.records.records import Board, Rescore
from hpcpod.tournament.leaderboard import begin, first_board, fold, needed_checkpoints, orders
from hpcpod.tournament.policy_snapshots import in_order, policies, to_score
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import HISTORY
from hpcpod.tournament.stopping import FINALS_FIRST, leader
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules

BEGAN = 100.0
EVERY = 10.0
"""Seconds: times are 110, 120 and so on."""


def game(pods: int = 4, stop: StopConfig | None = None) -> Rules:
    made = rules(pods, stop=stop or StopConfig(rounds=9))
    return replace(made, config=replace(made.config, snapshots=SnapshotsConfig(EVERY, 4)))


def begun(the_rules: Rules) -> Board:
    return begin(first_board(the_rules, 0.0), BEGAN)


def answer(board: Board, the_rules: Rules, now: float, **scores: float) -> Board:
    """The board after a report of each of these pods."""
    reports = [report(order_of(board, pod), flat(score)) for pod, score in scores.items()]
    return fold(board, reports, the_rules, now=now)


def taken(board: Board) -> list[tuple[int, int, str, int, int]]:
    return [(s.number, s.times, s.pod, s.round, s.env_steps) for s in in_order(board)]


# --- when they are taken -------------------------------------------------------------------


def test_each_time_has_the_leader_of_the_generation_before_it() -> None:
    the_rules = game()
    board = answer(begun(the_rules), the_rules, 109.9, p0001=1)
    assert (taken(board), board.snapshot_times) == ([], 0)
    board = answer(board, the_rules, 110.0, p0002=2)  # merged at the time itself: too late for it
    assert taken(board) == [(1, 1, "p0001", 1, 100)]
    board = answer(board, the_rules, 119.0, p0001=9)
    board = answer(board, the_rules, 125.0, p0001=0)
    assert taken(board) == [(1, 1, "p0001", 1, 100), (2, 1, "p0001", 2, 300)]
    assert board.snapshots["2"].checkpoint == Checkpoint("core of p0001-00002-1", 200)


def test_several_times_between_two_generations_have_the_same_leader() -> None:
    the_rules = game()
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = answer(board, the_rules, 135.0, p0002=2)
    assert taken(board) == [(1, 3, "p0001", 1, 100)]
    board = fold(board, [], the_rules, now=141.0)  # a merge without a report takes them, too
    assert taken(board) == [(1, 3, "p0001", 1, 100), (4, 1, "p0002", 1, 200)]
    assert fold(board, [], the_rules, now=149.0) == board


def test_before_the_first_report_there_is_none_and_those_times_are_not_made_up_for() -> None:
    the_rules = game()
    waiting = first_board(the_rules, 0.0)
    assert fold(waiting, [], the_rules, now=1e6) == waiting  # a queue costs no time
    board = answer(begun(the_rules), the_rules, 125.0, p0001=1)
    assert (taken(board), board.snapshot_times) == ([], 2)
    board = fold(board, [], the_rules, now=131.0)
    assert taken(board) == [(3, 1, "p0001", 1, 100)]


def test_the_first_report_begins_the_clock_where_nothing_else_did() -> None:
    the_rules = game()
    board = answer(first_board(the_rules, 0.0), the_rules, 500.0, p0001=1)
    board = fold(board, [], the_rules, now=512.0)
    assert taken(board) == [(1, 1, "p0001", 1, 100)]


def test_a_run_without_them_takes_none() -> None:
    the_rules = rules(4)
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = fold(board, [], the_rules, now=1e4)
    assert (board.snapshots, board.snapshot_times) == ({}, 0)


def test_any_permutation_of_the_reports_takes_the_same() -> None:
    the_rules = game(3)
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    reports = [report(order, flat(by_number(order))) for order in orders(board)]
    boards = [fold(board, mixed, the_rules, now=123.0) for mixed in itertools.permutations(reports)]
    assert all(other == boards[0] for other in boards)
    assert taken(boards[0]) == [(1, 2, "p0001", 1, 100)]


def test_the_merge_that_meets_the_limit_takes_its_times_and_later_ones_none() -> None:
    the_rules = game(stop=StopConfig(minutes=0.5, finalists=1))
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = answer(board, the_rules, 131.0, p0002=2)
    assert (board.phase, board.stop_reason) == ("finals", "minutes")
    assert taken(board) == [(1, 3, "p0001", 1, 100)]
    assert fold(board, [], the_rules, now=900.0) == board


def test_a_policy_that_has_its_score_already_keeps_it_in_later_snapshots() -> None:
    """A run that was extended has scored its leader at its first end, and scores none twice."""
    the_rules = game()
    board = answer(begun(the_rules), the_rules, 105.0, p0001=9)
    board = fold(board, [], the_rules, now=111.0)
    score = replace(board.snapshots["1"], returns=(7.0, 8.0), engine="it")
    board = replace(board, snapshots={"1": score})
    board = fold(board, [], the_rules, now=121.0)
    later = board.snapshots["2"]
    assert (later.pod, later.returns, later.engine, later.settled) == (
        "p0001",
        (7.0, 8.0),
        "it",
        True,
    )
    assert to_score(board) == {}


# --- what they keep ------------------------------------------------------------------------


def test_a_snapshot_s_policy_is_not_pruned_and_its_replay_buffer_is() -> None:
    the_rules = game(1)
    board = begun(the_rules)
    first = order_of(board, "p0001")
    rows = (Segment(0, 10, "rows"),)
    policy = Checkpoint("policy", 100, 10, rows)
    board = fold(board, [report(first, flat(1), checkpoint=policy)], the_rules, now=105.0)
    assert needed_checkpoints(board) == {"policy", "rows"}
    for number in range(HISTORY + 1):  # now neither history nor best has it
        board = answer(board, the_rules, 111.0 + number, p0001=2 + number)
    needed = needed_checkpoints(board)
    assert "policy" in needed and "rows" not in needed
    without = replace(board, snapshots={})
    assert needed - needed_checkpoints(without) == {"policy"}


def test_boards_with_and_without_them_are_read_back() -> None:
    _, board = in_scoring()
    text = json.dumps(board.document(), allow_nan=False)
    assert Board.from_document(json.loads(text)) == board
    old = json.loads(text)
    del old["snapshots"], old["run"]["snapshot_times"]
    assert Board.from_document(old) == replace(board, snapshots={}, snapshot_times=0)


# --- their scores --------------------------------------------------------------------------


def in_scoring(stop: StopConfig | None = None) -> tuple[Rules, Board]:
    """A run whose finals are scored: p0001 led at 110 and 120, p0002 at 130, p0004 has won."""
    the_rules = game(stop=stop or StopConfig(rounds=1, finalists=1))
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = answer(board, the_rules, 125.0, p0002=2)
    board = answer(board, the_rules, 131.0, p0003=3, p0004=4)
    (final,) = rescores(board)
    assert (board.phase, board.winner) == ("finals", None)
    return the_rules, fold(board, [report(final, flat(4.0, 128))], the_rules, now=140.0)


def rescores(board: Board) -> list[Rescore]:
    return [order for order in orders(board) if isinstance(order, Rescore)]


def test_they_are_scored_when_the_winner_is_decided_each_policy_once() -> None:
    the_rules, board = in_scoring()
    assert (board.phase, board.stop_reason, board.winner) == ("finals", "rounds", "p0004")
    assert [(o.id, o.pod, o.round) for o in rescores(board)] == [
        ("p0001-snapshot1-1", "p0001", 1), ("p0002-snapshot3-1", "p0002", 1),
    ]  # fmt: skip
    assert rescores(board)[0].checkpoint == Checkpoint("core of p0001-00001-1", 100)
    first, second = rescores(board)
    decided, stopped, worst = leader(board), board.stopped, board.worst
    board = fold(board, [report(second, (9.0, -99.0, 9.0, 9.0))], the_rules, now=150.0)
    assert board.phase == "finals" and [s.settled for s in in_order(board)] == [False, True]
    board = fold(board, [report(first, (1.0, 2.0, 3.0, 4.0), engine="e 1")], the_rules, now=160.0)
    assert board.phase == "finished" and orders(board) == []
    assert [(s.returns, s.engine) for s in in_order(board)] == [
        ((1.0, 2.0, 3.0, 4.0), "e 1"), ((9.0, -99.0, 9.0, 9.0), ""),
    ]  # fmt: skip
    # nothing that was decided before has changed
    assert (leader(board), board.stopped, board.worst) == (decided, stopped, worst)
    assert (board.winner, board.stop_reason) == ("p0004", "rounds")


def test_a_policy_that_leads_again_later_is_scored_once_for_all_its_times() -> None:
    the_rules = game(stop=StopConfig(rounds=2, finalists=1))
    board = answer(begun(the_rules), the_rules, 105.0, p0004=9)
    board = answer(board, the_rules, 112.0, p0001=1)
    for now in (122.0, 132.0):
        board = fold(board, [], the_rules, now=now)
    assert [s.number for s in in_order(board)] == [1, 2, 3]
    assert [s.number for s in policies(board).values()] == [1]
    while not (rescores(board) and rescores(board)[0].purpose == "snapshot"):
        board = play_round(board, the_rules, by_number, now=133.0)
    (order,) = rescores(board)
    board = fold(board, [report(order, flat(5.0))], the_rules, now=134.0)
    assert board.phase == "finished"
    assert [s.returns for s in in_order(board)] == [flat(5.0)] * 3


def test_after_a_target_they_are_scored_and_it_stays_the_reason() -> None:
    the_rules = game(stop=StopConfig(target=3.0))
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = answer(board, the_rules, 115.0, p0004=4)
    (attempt,) = rescores(board)
    board = fold(board, [report(attempt, (3.9,) * 128)], the_rules, now=117.0)
    assert (board.phase, board.stop_reason, board.winner) == ("finals", "target", "p0004")
    (order,) = orders(board)
    assert order.id == "p0001-snapshot1-1"
    board = fold(board, [report(order, flat(1.0))], the_rules, now=118.0)
    assert (board.phase, board.stop_reason, board.stopped) == ("finished", "target", 117.0)


def test_a_lost_order_is_given_out_again_and_a_failed_one_tried_as_often_as_others() -> None:
    the_rules, board = in_scoring()
    board = fold(board, [], the_rules, now=141.0, lost=["p0001-snapshot1-1"])
    assert [o.id for o in rescores(board)] == ["p0001-snapshot1-2", "p0002-snapshot3-1"]
    second = rescores(board)[1]
    board = fold(board, [failed(second, "raised", "it broke")], the_rules, now=142.0)
    assert [o.id for o in rescores(board)] == ["p0001-snapshot1-2", "p0002-snapshot3-2"]
    late = report(second, flat(2.0))  # of an attempt that was given up
    assert fold(board, [late], the_rules, now=142.0) == board
    reports = [failed(rescores(board)[1], "raised", "broke again"), report(rescores(board)[0])]
    board = fold(board, reports, the_rules, now=143.0)
    assert (board.phase, board.winner) == ("finished", "p0004")
    assert [(s.returns, s.failure) for s in in_order(board)] == [
        ((0.0, 0.0), ""), ((), "broke again"),
    ]  # fmt: skip


@pytest.mark.parametrize("corrupt", ["p0001-snapshot1-1", "p0002-snapshot3-1"])
def test_a_policy_that_can_t_be_read_ends_nothing_else(corrupt: str) -> None:
    the_rules, board = in_scoring()
    answers = {
        order.id: failed(order, "corrupt", "torn") if order.id == corrupt else report(order)
        for order in rescores(board)
    }
    board = fold(board, list(answers.values()), the_rules, now=150.0)
    assert (board.phase, board.winner) == ("finished", "p0004")
    assert sorted(s.failure for s in in_order(board)) == ["", "torn"]


def test_a_person_who_stops_twice_ends_it_without_them() -> None:
    the_rules, board = in_scoring()
    assert fold(board, [], the_rules, now=150.0, stop=FINALS_FIRST) == board
    ended = fold(board, [], the_rules, now=150.0, stop="user")
    assert (ended.phase, ended.stop_reason, ended.winner) == ("finished", "rounds", "p0004")
    assert not any(s.settled for s in in_order(ended))


def test_a_stop_for_good_opens_neither_finals_nor_snapshots() -> None:
    the_rules = game()
    board = answer(begun(the_rules), the_rules, 105.0, p0001=1)
    board = fold(board, [], the_rules, now=125.0, stop="user")
    assert (board.phase, board.winner, orders(board)) == ("finished", "p0001", [])
    assert taken(board) == [(1, 2, "p0001", 1, 100)]

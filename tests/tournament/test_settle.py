"""A report and its pod: the fence, the retries, the deaths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, Board, Checkpoint, Report
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.settle import rank
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules


def birth_of(board: Board, pod: str) -> Birth:
    birth = board.pods[pod].birth
    assert birth is not None
    return birth


# --- a round that was finished -------------------------------------------------------------


def test_a_finished_round_is_followed_by_the_next() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    first = birth_of(board, "p0001")
    done = report(first, (1.0, 3.0), metrics={"loss": 0.5})
    board = fold(board, [done], game, now=1.0)
    pod = board.pods["p0001"]
    assert done.checkpoint is not None
    assert pod.birth == replace(first, round=2, checkpoint=done.checkpoint)
    assert [(e.round, e.returns, dict(e.metrics)) for e in pod.history] == [
        (1, (1.0, 3.0), {"loss": 0.5})
    ]
    assert pod.best == pod.history[-1]
    assert (pod.trained_steps, board.env_steps) == (100, 100)
    assert (board.reports, board.rounds) == (1, 1)


def test_an_evaluation_keeps_what_it_took_of_its_round() -> None:
    board = first_board(rules(2), 0.0)
    done = report(order_of(board, "p0001"), wall_seconds=9.0, evaluate_seconds=2.0)
    (evaluation,) = fold(board, [done], rules(2), now=1.0).pods["p0001"].history
    assert (evaluation.cost, evaluation.evaluate_seconds) == (9.0, 2.0)


def test_the_best_is_the_one_with_the_highest_estimate() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    for value in (5.0, 6.0, 60.0, 5.0, 5.0):
        board = fold(board, [report(order_of(board, "p0001"), flat(value, 32))], game, now=1.0)
    best = board.pods["p0001"].best
    assert best is not None and best.round == 3
    assert rank(best)[0] == pytest.approx(60.0, abs=0.1)  # far beyond its error: no luck


def test_a_lucky_panel_does_not_rank_as_a_better_policy() -> None:
    game = rules(2, controls=2)
    board = first_board(game, 0.0)
    for lucky in (0.0, 0.0, 0.4, 0.0, 0.0):
        for pod, value in (("p0001", lucky), ("p0002", 0.3)):
            board = fold(board, [report(order_of(board, pod), flat(value, 32))], game, now=1.0)
    assert board.entries[0].pod == "p0002"
    row = next(entry for entry in board.entries if entry.pod == "p0001")
    best = board.pods["p0001"].best
    assert best is not None and row.estimate == best.estimate
    assert row.estimate is not None and row.estimate < row.mean


def test_a_policy_that_sometimes_succeeds_ranks_above_one_that_never_does() -> None:
    never, sometimes = (-200.0,) * 32, (-125.0,) * 3 + (-200.0,) * 29
    game = rules(2, controls=0)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0001"), never)], game, now=1.0)
    board = fold(board, [report(order_of(board, "p0002"), sometimes)], game, now=1.0)
    assert [entry.pod for entry in board.entries] == ["p0002", "p0001"]
    assert board.entries[0].low < board.entries[1].low
    # a pod's own best: never at first, then in 1 of 32, then in 2
    for successes in (1, 2):
        sample = (-125.0,) * successes + (-200.0,) * (32 - successes)
        board = fold(board, [report(order_of(board, "p0001"), sample)], game, now=2.0)
    best = board.pods["p0001"].best
    assert best is not None and best.round == 3


# --- the fence -----------------------------------------------------------------------------


def test_a_report_counts_once() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    done = report(order_of(board, "p0001"), (1.0, 2.0))
    once = fold(board, [done], game, now=1.0)
    assert fold(board, [done, done], game, now=1.0) == once
    assert fold(once, [done], game, now=1.0) == once


def test_of_two_reports_on_one_order_the_same_one_counts_in_any_order() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    one = report(order_of(board, "p0001"), (1.0, 2.0), slot="s1")
    two = report(order_of(board, "p0001"), (3.0, 4.0), slot="s2")
    assert fold(board, [one, two], game, now=1.0) == fold(board, [two, one], game, now=1.0)


def test_a_stale_attempt_counts_for_nothing() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    late = report(order_of(board, "p0001"), (9.0, 9.0))
    board = fold(board, [], game, now=1.0, lost=[late.order])
    assert birth_of(board, "p0001").id == "p0001-00001-2"
    assert board.pods["p0001"].failures == 0
    assert fold(board, [late], game, now=2.0) == board


@pytest.mark.parametrize("stranger", ["p0099-00001-1", "p0001-00007-1", "nonsense"])
def test_a_report_that_answers_no_open_order_is_ignored(stranger: str) -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    odd = replace(report(order_of(board, "p0001")), order=stranger, pod=stranger[:5])
    assert fold(board, [odd], game, now=1.0) == board


@pytest.mark.parametrize("odd", [{"round": 2}, {"attempt": 2}], ids=str)
def test_a_report_that_contradicts_its_own_name_is_ignored(odd: dict[str, Any]) -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    assert fold(board, [replace(report(order_of(board, "p0001")), **odd)], game, now=1.0) == board


def test_a_report_that_is_there_wins_over_the_loss_of_its_slot() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    done = report(order_of(board, "p0001"))
    board = fold(board, [done], game, now=1.0, lost=[done.order])
    assert birth_of(board, "p0001").id == "p0001-00002-1"


# --- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["crash", "memory", ""])
def test_a_crash_is_tried_again_and_then_given_up(kind: str) -> None:
    game = rules(2, max_restarts=2)
    board = first_board(game, 0.0)
    for attempt in (2, 3):
        board = fold(board, [failed(order_of(board, "p0001"), kind)], game, now=1.0)
        assert birth_of(board, "p0001").attempt == attempt
    board = fold(board, [failed(order_of(board, "p0001"), kind)], game, now=1.0)
    pod = board.pods["p0001"]
    assert (pod.fate, pod.birth) == ("failed", None)
    assert pod.fate_reason == "3 failures in a row, the last one: it broke"
    assert len(board.living) == 2


def test_a_pod_keeps_what_its_last_failed_attempt_said_until_a_success() -> None:
    game = rules(2, max_restarts=2)
    board = first_board(game, 0.0)
    for attempt, why in enumerate(("it broke", "and again"), start=1):
        board = fold(board, [failed(order_of(board, "p0001"), why=why)], game, now=1.0)
        said = f"round 1, attempt {attempt} on s1 failed: {why}"
        assert board.pods["p0001"].failure == said
    board = fold(board, [report(order_of(board, "p0001"))], game, now=1.0)
    assert board.pods["p0001"].failure == ""


def test_only_rounds_that_were_finished_are_counted_as_rounds() -> None:
    game = rules(2, stop=StopConfig(rounds=1, finalists=1))
    board = first_board(game, 0.0)
    board = fold(board, [failed(order_of(board, "p0001"))], game, now=1.0)
    assert (board.reports, board.rounds) == (1, 0)
    board = play_round(board, game, by_number)
    assert (board.reports, board.rounds, board.phase) == (3, 2, "finals")
    board = play_round(board, game, by_number)
    assert (board.reports, board.rounds, board.phase) == (4, 2, "finished")


def test_a_success_forgives_failures() -> None:
    game = rules(2, max_restarts=1)
    board = first_board(game, 0.0)
    for _ in range(5):
        board = fold(board, [failed(order_of(board, "p0001"))], game, now=1.0)
        board = fold(board, [report(order_of(board, "p0001"))], game, now=1.0)
    assert board.pods["p0001"].fate == "alive"
    assert birth_of(board, "p0001").id == "p0001-00006-6"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_a_return_that_is_no_number_is_a_divergence(value: float) -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0002"), (1.0, value))], game, now=1.0)
    assert board.pods["p0002"].fate_reason == "diverged: a return is not finite"
    assert board.entries == ()


@pytest.mark.parametrize(
    "broken", [{"returns": (1.0,)}, {"returns": ()}, {"checkpoint": None}], ids=str
)
def test_a_report_without_its_results_is_a_crash(broken: dict[str, Any]) -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    board = fold(board, [replace(report(order_of(board, "p0001")), **broken)], game, now=1.0)
    assert birth_of(board, "p0001").id == "p0001-00001-2"


def test_steps_of_a_failed_round_count_for_the_budget_and_not_for_the_pod() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    crash = replace(failed(order_of(board, "p0001")), trained_steps=40)
    board = fold(board, [crash], game, now=1.0)
    assert (board.env_steps, board.pods["p0001"].trained_steps) == (40, 0)


def test_a_corrupt_checkpoint_is_given_up_for_the_one_before() -> None:
    game = rules(2, controls=0)
    board = first_board(game, 0.0)
    for value in (1.0, 2.0, 3.0):
        board = fold(board, [report(order_of(board, "p0001"), flat(value))], game, now=1.0)
    assert board.entries[0].round == 3
    board = fold(board, [failed(order_of(board, "p0001"), "corrupt")], game, now=2.0)
    birth = birth_of(board, "p0001")
    # round 3 is trained again, from the end of round 2, under an attempt of its own
    assert (birth.id, birth.checkpoint) == (
        "p0001-00003-2", Checkpoint("core of p0001-00002-1", 200),
    )  # fmt: skip
    assert [e.round for e in board.pods["p0001"].history] == [1, 2]
    assert [(e.pod, e.round) for e in board.entries] == [("p0001", 2)]


def test_a_corrupt_checkpoint_with_nothing_before_it_is_death() -> None:
    game = rules(2)
    board = play_round(first_board(game, 0.0), game, by_number)
    board = fold(board, [failed(order_of(board, "p0002"), "corrupt")], game, now=2.0)
    assert board.pods["p0002"].fate == "failed"
    assert [entry.pod for entry in board.entries] == ["p0001"]


def test_an_unreadable_parent_is_not_copied_again() -> None:
    game = rules(8)
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, by_number)
    (child,) = (pod for pod in board.living if pod.cause == "copy")
    assert child.parent is not None and child.birth is not None
    board = fold(board, [failed(child.birth, "corrupt")], game, now=3.0)
    assert board.pods[child.id].fate == "failed"
    assert [e.round for e in board.pods[child.parent].history] == [1]
    successor = next(pod for pod in board.living if pod.replaces == child.id)
    assert (successor.parent, successor.parent_round) != (child.parent, 2)


# --- inheritance ---------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "exact"), [(0.0, True), (1e-9, False), (None, None)])
def test_a_copy_is_checked_against_what_its_parent_scored(
    offset: float | None, exact: bool | None
) -> None:
    game = rules(8)
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, by_number)
    (child,) = (pod for pod in board.living if pod.cause == "copy")
    parent = str(child.parent)
    scored = board.pods[parent].history[-1].returns
    # the parent trains on, until its round has left its history
    for _ in range(6):
        board = fold(board, [report(order_of(board, parent), flat(9.0))], game, now=3.0)
    inherited = () if offset is None else tuple(r + offset for r in scored)
    answer = report(order_of(board, child.id), flat(5.0), inherited_returns=inherited)
    board = fold(board, [answer], game, now=4.0)
    assert board.pods[child.id].transfer_exact is exact
    assert board.pods[child.id].parent_returns == ()
    # only the first round is inherited
    board = fold(board, [report(order_of(board, child.id), flat(5.0))], game, now=5.0)
    assert board.pods[child.id].transfer_exact is exact


def test_every_order_of_a_board_can_be_answered() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    for order in orders(board):
        answer: Report = report(order, flat(1.0))
        assert fold(board, [answer], game, now=1.0).reports == 1

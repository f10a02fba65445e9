"""Restarts: when a population stagnates, and what begins anew."""

from __future__ import annotations

import math
from random import Random

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board, Order
from hpcpod.tournament.generators.restarts import stagnates
from hpcpod.tournament.leaderboard import first_board, fold, orders
from tests.tournament.generators.play import EPISODES, born, by_place, game, played
from tests.tournament.world import flat, report

RISING = tuple(float(step) for step in range(12))


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((), False),
        ((1.0, 1.0, 1.0), False),  # three steps can't each be behind one before
        ((5.0, 5.0, 5.0, 5.0), True),
        (RISING, False),
        ((*RISING, 10.0, 9.0), False),
        ((*RISING, 10.5, 10.0, 9.5, 9.0), True),
        ((0.0, 0.0, *(100.0 + step / 100 for step in range(16))), True),  # grows, but slowly
    ],
)
def test_a_population_stagnates_when_its_smoothed_best_grows_no_more(
    steps: tuple[float, ...], found: bool
) -> None:
    assert stagnates(steps) == found


def test_a_noisy_rise_is_none() -> None:
    rng = Random(1)
    found = 0
    for _ in range(40):
        steps = tuple(step + rng.gauss(0, 1) for step in range(12))
        found += stagnates(steps)
    assert found <= 2


def flat_after(round_number: int) -> Board:
    """The board of eight pods whose scores grow no more after a round."""
    board = first_board(RULES, 0.0)
    for number in range(1, round_number + 1):
        board = played(RULES, 1, lambda board, order: min(order.round, 3) * 10.0, board)
        assert len(board.peaks) == number
    return board


RULES = game("restarts")


def test_the_best_scores_are_remembered_a_value_for_each_round_of_the_population() -> None:
    # an estimate is shrunk towards its neighbours only where panels have an error to shrink by
    assert flat_after(3).peaks == pytest.approx((10.0, 20.0, 30.0), rel=0.2)
    late = played(game("random_search", 3), 2, by_place)
    assert late.peaks == pytest.approx((3.0, 3.0))


def test_every_other_place_begins_with_a_fresh_pod_but_for_control_and_leader() -> None:
    board = flat_after(5)
    assert born(board) == []
    while not born(board):
        board = played(RULES, 1, lambda board, order: min(order.round, 3) * 10.0, board)
    anew = born(board)
    # the control is p0001; the leader is the first of equals with the most rounds
    leader = board.entries[0].pod
    places = {f"p000{n}" for n in range(2, 9)} - {leader}
    assert {pod.replaces for pod in anew} == places
    assert {pod.restarts for pod in anew} == {1}
    fresh = {pod.replaces for pod in anew if pod.cause == "fresh"}
    # places are counted from 0, and at the first restart the even ones begin from scratch
    assert fresh == {f"p000{n}" for n in (3, 5, 7)} - {leader}
    for pod in anew:
        if pod.cause == "copy":
            assert pod.parent in {entry.pod for entry in board.entries}
            assert pod.birth is not None and pod.birth.round == pod.parent_round + 1
        assert pod.birth is not None and pod.birth.shrink == (pod.cause == "copy")


def test_after_a_restart_selection_comes_every_other_round() -> None:
    board = flat_after(5)
    while not born(board):
        board = played(RULES, 1, lambda board, order: min(order.round, 3) * 10.0, board)
    before = len(board.pods)
    rounds = []
    for _ in range(6):
        board = played(RULES, 1, by_place, board)
        rounds += [pod.judged for pod in board.pods.values() if pod.fate == "replaced"][-1:]
    copied = [pod for pod in born(board) if int(pod.id[1:]) > before]
    olds = [board.pods[str(pod.replaces)] for pod in copied]
    # a control begins anew later, once it can teach nothing more
    assert [old for old in olds if not old.control]
    for pod, old in zip(copied, olds, strict=True):
        assert old.restarts == pod.restarts or old.control
    # a copy between two restarts keeps its weights, and no pod's later round shrinks any
    assert not any(pod.birth.shrink for pod in board.pods.values() if pod.birth is not None)


@pytest.mark.parametrize(
    "generator", ["gentle_truncation", "ranking", "multi_frequency", "pb2", "restarts"]
)
def test_copies_of_no_restart_keep_their_weights(generator: str) -> None:
    board = first_board(the_rules := game(generator), 0.0)
    copies = 0
    for _ in range(4):
        board = played(the_rules, 1, by_place, board)
        for pod in board.living:
            assert pod.birth is not None and not pod.birth.shrink
            copies += pod.birth.inherited
    assert copies


def test_no_restart_for_which_the_budget_is_too_short() -> None:
    rules = game("restarts", stop=StopConfig(rounds=9))
    assert born(played(rules, 9, lambda board, order: min(order.round, 3) * 10.0)) == []


def test_a_population_that_improves_selects_as_gentle_truncation_does() -> None:
    def score(board: Board, order: Order) -> float:
        return by_place(board, order) + 5.0 * order.round

    ours, gentle = (played(game(name), 6, score) for name in ("restarts", "gentle_truncation"))
    assert [pod.hyperparameters for pod in ours.living] == [
        pod.hyperparameters for pod in gentle.living
    ]
    assert math.isfinite(ours.peaks[-1])


def test_all_places_begin_anew_though_their_reports_come_one_by_one() -> None:
    def stands(_: Board, order: Order) -> float:
        return min(order.round, 3) * 10.0

    board, first = flat_after(5), 5
    while not born(board):
        board, first = played(RULES, 1, stands, board), first + 1
    # Four to eight rounds are left: enough for two steps of twice the length, not of four times.
    limited = game("restarts", stop=StopConfig(rounds=first + 6))
    board = played(limited, first - 1, stands)
    assert born(board) == []
    for _ in range(2):  # the last one to report is the first to begin anew
        for order in orders(board):
            board = fold(board, [report(order, flat(30.0, EPISODES))], limited, now=1.0)
    anew = [pod for pod in born(board) if pod.restarts == 1]
    assert {pod.replaces for pod in anew} == {f"p000{n}" for n in range(2, 9)}, "but the control"

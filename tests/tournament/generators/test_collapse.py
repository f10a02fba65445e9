"""Collapse: a population goes back to its leaderboard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.errors import ImpossibleBirth
from hpcpod.tournament.leaderboard import first_board, fold
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.proposals import Copy
from tests.tournament.generators.play import born, by_place, game, played
from tests.tournament.world import failed, order_of


def test_equals_that_have_all_fallen_go_back() -> None:
    rules = game("gentle_truncation")
    board = played(rules, 4, lambda board, order: 100.0)
    assert born(board) == []
    board = played(rules, 1, lambda board, order: 0.0, board)
    (child,) = born(board)
    assert (child.cause, child.parent_round) == ("copy", board.entries[0].round)
    assert child.parent == board.entries[0].pod
    assert child.birth is not None
    assert child.birth.round == child.parent_round + 1 < 6
    assert "all are behind" in child.evidence


def test_a_fall_that_may_be_chance_is_none() -> None:
    # returns are one above or below: of 16 episodes the mean has an error of a quarter
    rules = game("gentle_truncation")
    board = played(rules, 4, lambda board, order: 10.0)
    assert born(played(rules, 1, lambda board, order: 9.5, board)) == []


def test_a_row_is_gone_back_to_no_more_often_than_there_are_pods() -> None:
    rules = game("gentle_truncation")
    board = played(rules, 4, lambda board, order: 100.0)
    for _ in range(40):
        board = played(rules, 1, lambda board, order: 0.0, board)
    first = board.entries[0]
    back = [
        pod for pod in born(board) if (pod.parent, pod.parent_round) == (first.pod, first.round)
    ]
    assert 2 <= len(back) <= 8


def test_when_all_fail_at_once_their_places_go_to_the_best_row() -> None:
    rules = game("gentle_truncation", 4)
    board = played(rules, 3, by_place)
    best = board.entries[0]
    every = [pod.id for pod in board.living]
    dead = [failed(order_of(board, pod), "diverged") for pod in every]
    board = fold(board, dead, rules, now=2.0)
    assert {(pod.parent, pod.parent_round) for pod in board.living} == {(best.pod, best.round)}
    assert all(pod.evidence.startswith("in place of") for pod in board.living)


def test_a_dead_pod_of_the_leaderboard_can_be_a_parent_with_all_that_a_child_needs() -> None:
    rules = game("gentle_truncation", 4)
    board = played(rules, 3, by_place)
    board = fold(board, [failed(order_of(board, "p0004"), "diverged")], rules, now=2.0)
    parent = board.pods["p0004"]
    assert parent.fate == "failed" and parent.best is not None and not parent.history
    copy = Copy(parent.id, parent.best.round, parent.hyperparameters, (), "again")
    child = Offspring(board, rules).add(copy, board.pods["p0002"])
    assert child.birth is not None
    assert child.birth.checkpoint == parent.best.checkpoint
    assert (child.parent_returns, child.cost) == (parent.best.returns, parent.best.cost)
    assert (child.born, child.birth.round) == (board.rounds, parent.best.round + 1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"parent": "p0099"}, "'p0099' has no checkpoint of round 3 to copy"),
        ({"round": 77}, "'p0003' has no checkpoint of round 77 to copy: take one of a living"),
    ],
)
def test_what_is_not_kept_can_not_be_copied(changes: dict[str, object], why: str) -> None:
    rules = game("gentle_truncation", 4)
    board = played(rules, 3, by_place)
    copy = Copy("p0003", 3, board.pods["p0003"].hyperparameters, (), "")
    offspring = Offspring(board, rules)
    with pytest.raises(ImpossibleBirth, match=why):
        offspring.add(replace(copy, **changes), board.pods["p0002"])  # type: ignore[arg-type]
    assert offspring.board(board) == board  # a refusal takes no name


def test_what_has_trained_all_can_not_be_copied() -> None:
    rules = game("gentle_truncation", 4, stop=StopConfig(rounds=9))
    board = played(rules, 3, by_place, first_board(rules, 0.0))
    short = replace(rules, config=replace(rules.config, stop=StopConfig(rounds=3)))
    copy = Copy("p0003", 3, board.pods["p0003"].hyperparameters, (), "")
    with pytest.raises(ImpossibleBirth, match="at round 3 has nothing left to train"):
        Offspring(board, short).add(copy, board.pods["p0002"])

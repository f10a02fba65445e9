"""The words for a pod that was beaten and keeps its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.privilege import stays
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, play_round, rules

BUDGET = StopConfig(rounds=50, env_steps=10_000_000)


def played(rounds: int, game: Rules, score: Callable[..., float] = by_number) -> Board:
    board = first_board(game, 0.0)
    for _ in range(rounds):
        board = play_round(board, game, score)
    return board


def said(pod: str, board: Board, game: Rules) -> str:
    """The words for a pod that p0008 has beaten at round 2."""
    cohorts = Cohorts(board, game.config, game.algorithms)
    return stays(cohorts, board.pods[pod], Verdict(False, 2, ("p0008",)), game.generator)


@pytest.mark.parametrize(
    ("given", "pod", "words"),
    [
        ({}, "p0001", "it keeps its place as a control"),
        ({"algorithms": {"dqn": 1.0, "ppo": 7.0}, "controls": 0}, "p0001",
         "it keeps its place as the last dqn"),
        ({"stop": BUDGET}, "p0003", "it keeps its place as a pod that has not had its first share"
         " of the budget, 312500"),
        ({}, "p0003", "it keeps its place, since the generator makes no other pod for it now"),
    ],
)  # fmt: skip
def test_a_beaten_pod_keeps_its_place_for_what_it_is(
    given: dict[str, Any], pod: str, words: str
) -> None:
    game = rules(8, **given)
    assert said(pod, played(2, game), game) == words


def test_what_has_learnt_nothing_is_not_copied_where_there_is_a_budget() -> None:
    game = rules(8, controls=0, stop=StopConfig(rounds=50, env_steps=1_600))
    board = played(2, game, lambda order: 0.0)
    words = "it keeps its place, since what beat it is not shown to have learnt anything yet"
    assert said("p0003", board, game) == words


def test_a_board_says_why_a_beaten_pod_stays_to_readers_and_in_its_decisions() -> None:
    game = rules(8, controls=0, stop=StopConfig(rounds=2))
    board = played(2, game)
    [pod] = [pod for pod in board.living if "beaten by" in pod.verdict]
    words = "it keeps its place, since a copy of what beat it would have nothing to train"
    assert pod.verdict.endswith(f"; {words}")
    noted = [each for each in board.decisions.values() if each.pod == pod.id]
    assert [each.outcome for each in noted if each.kind == "comparison"] == [pod.verdict]

"""Recorded data have so many episodes: a report that has fewer than asked for has all of them."""

from __future__ import annotations

import pytest

from hpcpod.config.schema import EnsemblesConfig, StopConfig
from hpcpod.tournament.leaderboard import fold
from tests.tournament.test_finals import in_finals, rescores
from tests.tournament.test_second_looks import after, game
from tests.tournament.test_stopping import play
from tests.tournament.world import flat, report, rules


@pytest.mark.parametrize(("panel", "looks"), [(8, 1), (9, 0)])
def test_a_close_test_has_no_second_look(panel: int, looks: int) -> None:
    assert len(after(game(panel=panel)).looks) == looks


@pytest.mark.parametrize(("asked", "again"), [(16, 1), (17, 0)])
def test_an_attempt_to_confirm_has_no_second_set(asked: int, again: int) -> None:
    the_rules = rules(4, stop=StopConfig(target=3.6, confirm_episodes=asked))
    board = play(the_rules, 1)
    board = fold(board, [report(rescores(board)[0], flat(4.0, 16))], the_rules, now=1.0)
    assert len(rescores(board)) == again


@pytest.mark.parametrize(("asked", "stage"), [(32, "select"), (36, "report")])
def test_finalists_in_doubt_have_no_second_batch(asked: int, stage: str) -> None:
    """A batch is a quarter of ``confirm_episodes``: 8 of 8, or 8 of 9."""
    stop = StopConfig(
        rounds=1, finalists=3, confirm_episodes=asked, ensembles=EnsemblesConfig(rules=())
    )
    the_rules, board = in_finals(stop)
    unclear = {"p0004": 4.0, "p0003": 4.01, "p0002": 3.9}
    noise = (3.0, -3.0, 2.0, -2.0, 1.0, -1.0, 0.5, -0.5)
    given = {
        pod: [at + e for e in noise[k:] + noise[:k]] for k, (pod, at) in enumerate(unclear.items())
    }
    board = fold(board, [report(o, given[o.pod]) for o in rescores(board)], the_rules, now=2.0)
    assert board.finals.stage == stage

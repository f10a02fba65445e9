"""The living pods side by side, as a table, as JSON and in Python."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from hpcpod.cli.parser import main
from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board
from hpcpod.run.population_scores import believed, pod_scores
from hpcpod.run.tables import scores_table
from hpcpod.tournament.leaderboard import first_board, fold, orders
from tests.tournament.world import report, rules


def played(gap: float, rounds: int = 5) -> Board:
    """Four pods after some rounds: pod k is ``gap`` k above 0, and rises by 1 a round."""
    game = rules(4, stop=StopConfig(rounds=99), warmup_rounds=99)
    board, rng = first_board(game, 0.0), Random(1)
    for _ in range(rounds):
        hard = [rng.gauss(0, 3) for _ in range(16)]
        done = [
            report(o, [gap * int(o.pod[1:]) + o.round + h + rng.gauss(0, 1) for h in hard])
            for o in orders(board)
        ]
        board = fold(board, done, game, now=1.0)
    return board


def test_equal_pods_are_told_apart_by_nothing() -> None:
    scores = pod_scores(played(0.0))
    assert sum(score.best for score in scores) == pytest.approx(1)
    assert max(score.best for score in scores) < 0.8
    # what was seen apart is mostly error: shrunk means are closer than the means
    seen, believed_in = [s.mean for s in scores], [s.shrunk for s in scores]
    assert max(believed_in) - min(believed_in) < 0.9 * (max(seen) - min(seen))
    assert all(score.low < score.shrunk for score in scores)


def test_a_leader_is_seen_on_common_seeds() -> None:
    first, *others = pod_scores(played(2.0))
    assert (first.pod, first.improves) == ("p0004", None)
    assert first.best > 0.99
    assert all(other.improves is not None and other.improves < 0.3 for other in others)
    assert first.iqm_low < first.iqm < first.iqm_high


def test_a_slope_is_the_rise_of_a_round() -> None:
    score = pod_scores(played(0.0, rounds=8))[0]
    assert score.slope is not None and score.slope_error is not None
    assert abs(score.slope - 1) < 4 * score.slope_error


def test_a_board_without_an_evaluation_has_no_scores() -> None:
    board = first_board(rules(4), 0.0)
    assert pod_scores(board) == ()
    assert believed(()) == "No living pod has an evaluation yet."


def test_pods_without_spread_are_scored() -> None:
    game = rules(4, stop=StopConfig(rounds=99))
    board = first_board(game, 0.0)
    board = fold(board, [report(o, (5.0,) * 4) for o in orders(board)], game, now=1.0)
    assert {(score.mean, score.sd) for score in pod_scores(board)} == {(5.0, 0.0)}
    assert all(math.isfinite(score.shrunk) for score in pod_scores(board))


def test_the_table_fits_its_width() -> None:
    console = Console(width=140, record=True)
    console.print(scores_table(pod_scores(played(2.0))))
    text = console.export_text()
    assert "P(best)" in text and "p0004" in text and "±" in text
    assert "may be the best" in text


def test_the_leaderboard_has_them_on_request(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(finished_run)
    assert main(["leaderboard", folder, "--stats"]) == 0
    assert "P(best)" in capsys.readouterr().out
    assert main(["leaderboard", folder, "--stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]
    assert {"pod", "shrunk", "best", "iqm", "slope"} <= found[0].keys()
    assert main(["leaderboard", folder]) == 0
    assert "P(best)" not in capsys.readouterr().out

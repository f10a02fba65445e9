"""The living pods side by side, as a table, as JSON and in Python."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
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
    for other in others:
        assert other.improves_low is not None and other.improves_high is not None
        assert 0 <= other.improves_low <= (other.improves or 0.0) < other.improves_high <= 0.5
    assert first.iqm_low < first.iqm < first.iqm_high


def test_pods_are_correlated_by_the_seeds_that_they_have_in_common() -> None:
    board = played(2.0)
    first, *others = pod_scores(board)
    returns = {pod.id: pod.history[-1].returns for pod in board.living}
    assert first.correlation is None
    for other in others:
        by_hand = np.corrcoef(returns[first.pod], returns[other.pod])[0, 1]
        assert other.correlation == pytest.approx(by_hand) and by_hand > 0.5
    ahead = next(order for order in orders(board) if order.pod == "p0001")
    later = [report(ahead, [each - 1 for each in returns["p0004"]])]  # on other seeds
    game = rules(4, stop=StopConfig(rounds=99), warmup_rounds=99)
    scores = pod_scores(fold(board, later, game, now=1.0))
    assert scores[0].pod == "p0004"
    assert {s.pod for s in scores if s.correlation is None} == {"p0001", "p0004"}


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
    assert {score.correlation for score in pod_scores(board)} == {None}
    assert all(math.isfinite(score.shrunk) for score in pod_scores(board))


def test_the_table_fits_its_width() -> None:
    wide: dict[str, Any] = {
        "mean": 475.25, "sd": 112.5, "shrunk": 475.5, "low": 465.1, "iqm": 470.1, "iqm_low": 450.3,
        "iqm_high": 480.2, "slope": 121.3, "slope_error": 14.5,
    }  # fmt: skip
    scores = [replace(score, **wide) for score in pod_scores(played(2.0))]
    console = Console(width=100, record=True)
    console.print(scores_table(scores))
    text = console.export_text()
    assert "P(best)" in text and "p0004" in text and "±" in text
    assert "may be the best" in text
    assert "…" not in text and max(map(len, text.splitlines())) <= 100
    last = scores[-1]
    assert f"  470.1 [450.3, 480.2]     {last.best:.2f}  121.3 ± 14.5" in text
    assert f"[{last.improves_low:.2f}, {last.improves_high:.2f}]" in text
    assert f" {last.correlation:.2f}" in text


def test_the_leaderboard_has_them_on_request(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(finished_run)
    assert main(["leaderboard", folder, "--stats"]) == 0
    assert "P(best)" in capsys.readouterr().out
    assert main(["leaderboard", folder, "--stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]
    asked = {"pod", "shrunk", "best", "iqm", "slope", "improves_low", "correlation"}
    assert asked <= found[0].keys()
    assert main(["leaderboard", folder]) == 0
    assert "P(best)" not in capsys.readouterr().out

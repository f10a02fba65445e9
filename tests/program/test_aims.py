"""Comparisons of programs by more than returns: by a second aim, and by a score of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod._student_t import t_quantile
from hpcpod.pod.watch import Watch
from hpcpod.records.records import Board
from hpcpod.run.run import open_run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.program.programs import READ, create, running


def play(folder: RunFolder) -> Board:
    """Execute the orders of a run in this process, until it has finished."""
    rules = Rules.of_run(folder)
    with running(folder) as program:
        while (board := read_board(folder)).phase != "finished":
            for order in orders(board):
                folder.reports.publish(program.execute(order, "here", Watch()))
            merge(folder, rules)
    return board


def test_of_equal_returns_the_program_survives_that_needs_less_of_the_cost(tmp_path: Path) -> None:
    script = (
        READ
        + """
power = task["hyperparameters"]["rate"]
if save:
    (save / "power").write_text(str(power))
energy = power + 0.01 * (int(task["pod"][1:]) * task["round"] % 3)
returns = [seed % 1000 / 1000 for seed in task["panel_seeds"]]
report(steps=4, returns=returns, metrics={"energy": energy})
"""
    )
    folder = create(
        script, tmp_path, stop={"rounds": 4},
        population={"pods": {"min": 4, "max": 4}, "controls": 0, "updater": "pareto",
                    "cost": "energy", "warmup_rounds": 1},
    )  # fmt: skip
    pods = play(folder).pods
    powers = {name: float(pod.hyperparameters["rate"]) for name, pod in pods.items()}
    copies = [pod for pod in pods.values() if pod.cause == "copy"]
    assert copies
    for copy in copies:
        assert copy.parent is not None and copy.replaces is not None
        assert powers[copy.parent] < powers[copy.replaces]


def test_a_score_on_fresh_seeds_has_the_error_and_the_episodes_that_the_program_tells(
    tmp_path: Path,
) -> None:
    script = (
        READ
        + """
if save:
    (save / "x").write_text("x")
report(steps=4, score=1.0, error=0.1, episodes=1000)
"""
    )
    folder = create(
        script, tmp_path, program={"scores": True}, population={"pods": {"min": 2, "max": 2}},
        stop={"rounds": 1, "finalists": 2},
    )  # fmt: skip
    board = play(folder)
    assert [(row.purpose, row.episodes) for row in board.confirmed] == [
        ("final", 1000), ("final", 1000), ("report", 1000),
    ]  # fmt: skip
    half = 0.1 * t_quantile(0.975, 999)
    assert board.confirmed[-1].high == pytest.approx(1 + half)
    assert board.confirmed[-1].low == pytest.approx(1 - half, abs=0.01)  # and one more, bad one
    best = open_run(folder.path).best()
    assert best is not None and best.fresh and best.episodes == 1000

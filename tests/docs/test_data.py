"""The page on a run's data: its code runs, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.data import TABLES
from hpcpod.run.run import Run
from tests.docs.pages import block, page, run_script
from tests.support.hand_played import answer, birth_of, end, merged
from tests.support.small_runs import create

PAGE = page("data.md")


def test_the_tables_that_it_calls_methods_are() -> None:
    said = " ".join(PAGE.read_text(encoding="utf-8").split())
    named = re.findall(r"`(\w+)`", said.partition("run.table(name)")[2].partition(" methods, ")[0])
    assert len(named) == 6 and set(named) <= set(TABLES)
    assert all(callable(getattr(Run, name)) for name in named)


def test_its_code_runs_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = create(tmp_path / "runs", "ppo", "dqn", name="cartpole")
    for pod in ("p0001", "p0002"):
        answer(folder, birth_of(folder, pod), (1.0, 2.0), 10.0)
    merged(folder)
    board = end(folder)
    printed = run_script(block(PAGE, "python", "import hpcpod"), tmp_path)
    assert "p0001" in printed and "training" in printed and "cartpole" in printed
    to = tmp_path / "cartpole.log"
    assert main(["results", str(folder.path), "--optuna", str(to)]) == 0
    printed = run_script(block(PAGE, "python", "load_study"), tmp_path)
    assert printed.split() == [board.winner, "101.0"]

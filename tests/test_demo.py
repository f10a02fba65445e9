"""The configurations that come along reach their targets, and the demo by a tournament."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from tests.docs.pages import ROOT, block, page

CONFIGS = Path(__file__).parents[1] / "configs"


def launched(name: str, home: Path) -> str:
    """What ``hpcpod launch`` says of one of them, to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "launch", str(CONFIGS / name)],
        cwd=home, text=True, capture_output=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def form(line: str) -> str:
    """A line of the demo without what differs from run to run, and without all after a ``;``."""
    line = re.sub(r"(policy: ).*", r"\1", line).partition(";")[0].strip()
    line = re.sub(r"\b(ppo|dqn)\b", "algorithm", line)
    line = re.sub(r"copy of p\d+|control", "origin", line)
    line = re.sub(r"alive|replaced|winner", "fate", line)
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)*(e-\d+)?", "0", line))


def forms_of_the_pages() -> set[str]:
    """The forms of the lines that the README and the tutorial show of the demo."""
    pages = (ROOT / "README.md", page("cartpole.md"))
    lines = "".join(block(each, "text", "finished: target") for each in pages).splitlines()
    return {form(line) for line in lines if line != "..."}


@pytest.mark.slow
def test_the_demo_reaches_its_target_by_gated_and_mutated_copies(tmp_path: Path) -> None:
    said = launched("cartpole.yaml", tmp_path)
    run = open_run(tmp_path / "runs" / "cartpole")
    status, board = run.status(), run.board()
    assert (status.state, status.stop_reason) == ("finished", "target")
    assert status.best is not None and status.best.fresh and status.best.low >= 475

    # On a slow machine the demo lasts longer, and fresh draws take the places of pods that stopped.
    founders = [pod for pod in board.pods.values() if pod.cause == "fresh" and not pod.replaces]
    assert [pod.algorithm for pod in founders].count("ppo") == 4
    assert [pod.algorithm for pod in founders].count("dqn") == 4
    assert "replaced" in {pod.fate for pod in founders}

    line = run.lineage()
    assert line[0].cause == "fresh" and line[-1].id == board.winner
    for child in line[1:]:
        assert child.mutated == ("learning_rate",) and child.transfer_exact
        assert "did not rank them: mean difference" in child.evidence
        assert child.replaces is not None
    copies = re.findall(r"^ *(p\d+) copy of p\d+ at round", said, re.MULTILINE)
    assert copies == [pod.id for pod in line[1:]] and len(copies) > 0
    assert f"run folder: {run.path}" in said
    assert forms_of_the_pages() - {form(line) for line in said.splitlines()} == set()


@pytest.mark.slow
def test_an_ensemble_of_three_algorithms_swings_the_pendulum_up(tmp_path: Path) -> None:
    assert "finished: target" in launched("pendulum_ensemble.yaml", tmp_path)
    run = open_run(tmp_path / "runs" / "pendulum-ensemble")
    best = run.best()
    assert best is not None and best.fresh and best.low >= -200
    assert {pod.algorithm for pod in run.board().pods.values()} == {"ppo", "sac", "td3"}

"""The page on training programs of the user's own: its files are run as they are written there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpod.run.run import Run
from tests.docs.pages import ROOT, block, commands_of, page, run_script
from tests.program.given import play

PAGE = page("your-program.md")
FILES = {"train.py", "kept.py", "mine.yaml"}
RUN = "climbed"
SINGLE = ROOT / "configs" / "programs" / "cleanrl_ppo.py"


@pytest.fixture(scope="module", autouse=True)
def this_python() -> Iterator[None]:
    """The word ``python`` of a command is this Python."""
    with pytest.MonkeyPatch.context() as patch:
        there = Path(sys.executable).parent
        patch.setenv("PATH", f"{there}{os.pathsep}{os.environ['PATH']}")
        yield


def test_its_program_wins_a_tournament(run: Run) -> None:
    assert commands_of(PAGE)[1] == ["hpcpod", "launch", "mine.yaml"]
    assert run.status().state == "finished"
    best = run.best()
    # A policy that does nothing balances for 9 steps; the weights of the start are one.
    assert best is not None and best.fresh and best.mean > 40
    assert (run.path / "best" / "weights.npy").is_file()


def test_its_program_runs_without_a_run_as_well(home: Path) -> None:
    assert commands_of(PAGE)[0] == ["python", "train.py"]
    text = (home / "train.py").read_text(encoding="utf-8")
    assert "hpcpod: no run: mean return" in run_script(text, home)


def test_its_kept_program_plays_one_round_after_another(home: Path, tmp_path: Path) -> None:
    task = {"hyperparameters": {"rate": 0.5}}
    other = {"hyperparameters": {"rate": 0.1}, "pod": "p0002"}
    score = {"mode": "score", "steps": None, "save_to": None, "checkpoint": 1}
    reports = play(
        [sys.executable, str(home / "kept.py")], tmp_path / "session",
        task, {**task, "checkpoint": 0}, other, {**task, **score},
    )  # fmt: skip
    # After another pod's round it scores the checkpoint that it is given.
    assert [report["returns"][0] for report in reports] == [0.5, 0.75, 0.1, 0.75]


def test_its_diff_makes_the_single_file_of_one_without_hpcpod() -> None:
    text = SINGLE.read_text(encoding="utf-8")
    before = text.replace("import hpcpod\n", "", 1)
    for hunk in block(PAGE, "diff", "import hpcpod").split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        new = "".join(line[1:] for line in lines if line[0] != "-")
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = new.replace("import hpcpod\n", "")  # it stands apart
        assert before.count(new) == 1, new
        before = before.replace(new, old)
    assert "hpcpod.session" in text
    assert "hpcpod" not in before.partition('"""\n')[2] and "pod." not in before
    compile(before, SINGLE.name, "exec")

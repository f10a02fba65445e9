"""Updaters, generators, allocators and evaluators of the documentation: tests and tournaments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from tests.docs.pages import commands_of, files_of, page, said, said_here

PARTS = {
    "updater": "SignTest",
    "generator": "HillClimbing",
    "allocator": "Promise",
    "evaluator": "Sticky",
}
"""The class of each kind's page."""
LONGEST = 60
"""Lines of code that fit on a screen."""
SHORT = {
    "round.env_steps": 1024, "stop.rounds": 2, "stop.env_steps": 8192, "stop.finalists": 1,
    "stop.confirm_episodes": 4,
}  # fmt: skip
"""Makes a tournament of seconds, in which each pod has had the verdict of a rule."""


@pytest.fixture(scope="module", params=PARTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def home(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp(kind)
    files = files_of(page(f"bring-your-own-{kind}.md"))
    assert files.keys() == {f"my_{kind}.py", "mine.yaml", f"test_my_{kind}.py"}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_its_code_fits_on_a_screen(home: Path, kind: str) -> None:
    assert len((home / f"my_{kind}.py").read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_its_test_passes(home: Path, kind: str) -> None:
    assert re.search(r"\b\d+ passed", said(home, "pytest", "-q", f"test_my_{kind}.py"))


def test_its_commands_run_a_tournament_by_it(
    home: Path, kind: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = commands_of(page(f"bring-your-own-{kind}.md"))
    assert [" ".join(words[:2]) for words in commands] == [
        f"pytest test_my_{kind}.py", "hpcpod validate", "hpcpod launch", "hpcpod leaderboard"
    ]  # fmt: skip
    _, validate, launch, leaderboard = commands
    assert f"{kind}: my_{kind}:{PARTS[kind]}" in said_here(capsys, *validate)
    short = [word for key in SHORT for word in ("--set", f"{key}={SHORT[key]}")]
    said_here(capsys, *launch, *short)
    assert "ppo" in said_here(capsys, *leaderboard)
    assert open_run(home / "runs" / "mine").status().state == "finished"

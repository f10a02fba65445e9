"""The plugin of the documentation, as it is written there: its test and its tournament."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcpod.run.run import Run
from tests.docs.conftest import verbs_in
from tests.docs.pages import commands_of, page, said, said_here

PAGE = page("bring-your-own-agent.md")
FILES = {"my_agents.py", "mine.yaml", "test_my_agents.py"}
RUN = "mine"


def test_its_test_passes(home: Path) -> None:
    assert re.search(r"\b\d\d passed", said(home, "pytest", "-q", "test_my_agents.py"))


def test_its_commands_are_these(run: Run, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    commands = commands_of(PAGE)
    assert [" ".join(words[:2]) for words in commands] == [
        "pytest test_my_agents.py", "hpcpod validate", "hpcpod launch", "hpcpod leaderboard"
    ]  # fmt: skip
    assert '"my_agents:Reinforce"' in said_here(capsys, *commands[1]).replace("'", '"')
    assert "my_agents:Reinforce" in said_here(capsys, *commands[3])


def test_its_agent_learns_in_a_tournament(run: Run) -> None:
    assert run.status().state == "finished"
    scores = [e.mean for e in run.leaderboard() if e.algorithm == "my_agents:Reinforce"]
    # One that acts at random lasts about 22 steps, and one that always pushes one way 9.
    assert max(scores) > 100


def test_an_override_reaches_a_name_with_dots(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_pkg").mkdir()
    (tmp_path / "my_pkg" / "mod.py").write_bytes((home / "my_agents.py").read_bytes())
    text = (home / "mine.yaml").read_text(encoding="utf-8")
    dotted = text.replace("my_agents:Reinforce", "my_pkg.mod:Reinforce")
    (tmp_path / "dotted.yaml").write_text(dotted, encoding="utf-8")
    option = 'agents."my_pkg.mod:Reinforce".gamma=0.9'
    assert option.replace("Reinforce", "MyAgent") in PAGE.read_text(encoding="utf-8")
    with verbs_in(tmp_path):
        told = said_here(capsys, "hpcpod", "validate", "dotted.yaml", "--set", option)
    assert "gamma: 0.9" in told

"""The environments of the documentation, as they are written there: their test, a tournament."""

from __future__ import annotations

import re
from pathlib import Path

from hpcpod.run.run import Run
from tests.docs.pages import commands_of, page, said

PAGE = page("bring-your-own-env.md")
FILES = {"my_envs.py", "my_simulator.py", "mine.yaml", "test_my_envs.py"}
RUN = "docked"


def test_its_test_passes(home: Path) -> None:
    out = said(home, "pytest", "-q", "-rs", "test_my_envs.py")
    # Of both, the one that is only for environments that lose the true final observation.
    assert re.search(r"\b\d\d passed, 2 skipped", out), out


def test_its_commands_are_these(home: Path, run: Run) -> None:
    commands = commands_of(PAGE)
    assert [" ".join(words[:2]) for words in commands] == [
        "pytest test_my_envs.py", "hpcpod validate", "hpcpod launch", "hpcpod leaderboard"
    ]  # fmt: skip
    assert "my_envs:Docking" in said(home, *commands[1])
    assert "ppo" in said(home, *commands[3])


def test_its_environment_can_be_learned_in_a_tournament(run: Run) -> None:
    assert run.status().state == "finished"
    # One that pushes at random is lost after 37 steps and has got 27; nobody gets more than 50.
    assert max(entry.mean for entry in run.leaderboard()) > 45
    assert all(entry.mean <= 50 for entry in run.leaderboard())


def test_a_configuration_names_its_simulator(home: Path) -> None:
    options = ["env.id=Docking", "env.backend=my_simulator:Fleet", "env.max_episode_steps=null"]
    words = [word for option in options for word in ("--set", option)]
    resolved = said(home, "hpcpod", "validate", "mine.yaml", *words)
    assert "backend: my_simulator:Fleet" in resolved

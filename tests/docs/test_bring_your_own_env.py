"""The environments of the documentation, as they are written there: their test, a tournament."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hpcpod.run.run import Run
from tests.docs.pages import block, commands_of, page, run_script, said, said_here

PAGE = page("bring-your-own-env.md")
FILES = {"my_envs.py", "my_simulator.py", "my_wrappers.py", "mine.yaml", "test_my_envs.py"}
RUN = "docked"
REWARDS = """\
import hpcpod
import torch

for wrappers in ([], {wrappers}):
    env = hpcpod.make_env("my_envs:Docking", wrappers=wrappers)
    env.reset(torch.tensor([7]))
    print(float(env.step(torch.tensor([[0.5]])).reward))
"""
"""Prints the reward of one push without the page's wrapper, and with it."""


def test_its_test_passes(home: Path) -> None:
    out = said(home, "pytest", "-q", "-rs", "test_my_envs.py")
    # Of both, the one that is only for environments that lose the true final observation.
    assert re.search(r"\b\d\d passed, 2 skipped", out), out


def test_its_commands_are_these(run: Run, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    commands = commands_of(PAGE)
    assert [" ".join(words[:2]) for words in commands] == [
        "pytest test_my_envs.py", "hpcpod validate", "hpcpod launch", "hpcpod leaderboard"
    ]  # fmt: skip
    assert "my_envs:Docking" in said_here(capsys, *commands[1])
    assert "ppo" in said_here(capsys, *commands[3])


def test_its_environment_can_be_learned_in_a_tournament(run: Run) -> None:
    assert run.status().state == "finished"
    # One that pushes at random is lost after 37 steps and has got 27; nobody gets more than 50.
    assert max(entry.mean for entry in run.leaderboard()) > 45
    assert all(entry.mean <= 50 for entry in run.leaderboard())


def test_a_configuration_names_its_simulator(
    here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["env.id=Docking", "env.backend=my_simulator:Fleet", "env.max_episode_steps=null"]
    words = [word for option in options for word in ("--set", option)]
    resolved = said_here(capsys, "hpcpod", "validate", "mine.yaml", *words)
    assert "backend: my_simulator:Fleet" in resolved


def test_its_wrapper_changes_the_reward_that_a_run_trains_by(
    home: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    part = yaml.safe_load(block(PAGE, "yaml", "my_wrappers"))
    mine = yaml.safe_load((home / "mine.yaml").read_text(encoding="utf-8"))
    whole = {**mine, "name": "fuel", "env": {**mine["env"], **part["env"]}}
    (home / "fuel.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    assert "my_wrappers:Fuel" in said_here(capsys, "hpcpod", "validate", "fuel.yaml")
    said_here(capsys, "hpcpod", "train", "fuel.yaml", "--env-steps", "512")
    assert (home / "fuel.h5").is_file()
    [wrapper] = part["env"]["wrappers"]
    plain, charged = run_script(REWARDS.format(wrappers=[wrapper]), home).splitlines()
    price = wrapper["my_wrappers:Fuel"]["price"]
    assert price > 0 and float(plain) - float(charged) == pytest.approx(price * 0.25, abs=1e-6)

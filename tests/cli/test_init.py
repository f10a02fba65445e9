"""``init``: a commented configuration for any environment, which validate and launch take."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pexpect
import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import load_file
from hpcpod.run.run import open_run
from tests.support.command_line import refusal
from tests.support.slots import ROOT

HERE = "tests.cli.test_init"


class _Short(gym.Env[Any, Any]):
    """Ends after 10 steps."""

    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._left = 10
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self.observation_space.sample(), float(action), self._left == 0, False, {}


class Pixels(_Short):
    """Shows images."""

    observation_space = gym.spaces.Box(0, 255, (16, 16, 3), np.uint8)


class Rooms(_Short):
    """Shows a mapping."""

    observation_space = gym.spaces.Dict(
        {"place": gym.spaces.Box(-1, 1, (3,)), "room": gym.spaces.Discrete(4)}
    )


def written(file: Path, *words: str) -> str:
    """The text of the file that ``init`` writes, with speeds assumed."""
    assert main(["init", str(file), *words, "--no-measure"]) == 0
    return file.read_text()


@pytest.mark.parametrize(
    ("env", "agents"),
    [
        ("CartPole-v1", {"ppo", "dqn"}),
        ("Pendulum-v1", {"ppo", "sac", "td3"}),
        (f"{HERE}:Pixels", {"ppo", "dqn"}),
        (f"{HERE}:Rooms", {"ppo", "dqn"}),
    ],
)
def test_each_kind_of_environment_gets_a_file_that_validate_takes(
    env: str, agents: set[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = written(home / "mine.yaml", "--env", env, "--minutes", "300", "--slots", "2")
    run = load_file(home / "mine.yaml")
    assert (run.env.id, run.stop.minutes, run.cluster.slots) == (env, 300.0, 2)
    assert set(run.agents) == agents
    lines = text.splitlines()
    keys = [i for i, line in enumerate(lines) if re.match(r" *\w+:", line)]
    bare = [lines[i].strip() for i in keys if not lines[i - 1].lstrip().startswith("#")]
    assert bare == [f"{name}: 1.0" for name in run.population.algorithms]  # these are no fields
    assert "    # Step size of Adam.\n    learning_rate: {log_uniform: [" in text
    assert max(map(len, lines)) <= 100
    assert main(["validate", "mine.yaml"]) == 0, capsys.readouterr().err


def test_launch_takes_the_file(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written(Path("cart.yaml"), "--env", "CartPole-v1", "--minutes", "5")
    assert "hpcpod launch cart.yaml" in capfd.readouterr().out
    small = (
        "stop={rounds: 1, finalists: 1, confirm_episodes: 2}", "cluster.slots=1",
        "population={pods: {min: 1, max: 1}, algorithms: {ppo: 1}}", "agents={ppo: {horizon: 16}}",
        "round={env_steps: 256, episodes: 2}",
    )  # fmt: skip
    assert main(["launch", "cart.yaml", *(word for each in small for word in ("--set", each))]) == 0
    assert open_run("cartpole-v1").status().stop_reason == "rounds"


def test_the_default_names_are_the_environment_s_and_a_run_keeps_its_own(home: Path) -> None:
    (home / "runs" / "pixels").mkdir(parents=True)
    assert main(["init", "--env", f"{HERE}:Pixels", "--cluster", "slurm", "--no-measure"]) == 0
    run = load_file(home / "pixels-2.yaml")
    assert (run.name, run.cluster.launcher, run.stop.minutes) == ("pixels-2", "slurm", 30.0)


def test_bad_input_is_a_sentence_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "init", "bad.yaml", "--env", "CartPol-v1")
    assert "Did you mean: `CartPole`?" in said
    assert "init needs --env with a task's id" in refusal(capsys, "init")
    assert "no folder nowhere" in refusal(capsys, "init", "nowhere/a.yaml", "--env", "CartPole-v1")
    assert not (home / "bad.yaml").exists()
    (home / "mine.yaml").write_text("mine")
    words = ("init", "mine.yaml", "--env", "CartPole-v1", "--no-measure")
    assert "mine.yaml: it is there already" in refusal(capsys, *words)
    assert (home / "mine.yaml").read_text() == "mine"
    assert main([*words, "--overwrite"]) == 0
    assert load_file(home / "mine.yaml").env.id == "CartPole-v1"


@pytest.mark.long
def test_in_a_terminal_it_asks_three_questions_and_again_where_there_is_no_answer(
    home: Path,
) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["-m", "hpcpod", "init", "asked.yaml", "--no-measure"]
    child = pexpect.spawn(
        sys.executable, words, cwd=str(home), env=env, encoding="utf-8", timeout=120
    )
    for question, answer in (
        ("environment: ", "Acrobot-v1"), ("minutes", "soon"), ("above 0, got 'soon'", ""),
        ("minutes", "7"), ("where: ", "moon"), ("got 'moon'", ""), ("where: ", "local"),
    ):  # fmt: skip
        child.expect(question)
        if answer:
            child.sendline(answer)
    child.expect("wrote asked.yaml")
    child.expect(pexpect.EOF)
    run = load_file(home / "asked.yaml")
    assert (run.env.id, run.stop.minutes, run.cluster.launcher) == ("Acrobot-v1", 7.0, "local")


@pytest.mark.long
def test_who_answers_nothing_gets_nothing(home: Path) -> None:
    child = pexpect.spawn(
        sys.executable, ["-m", "hpcpod", "init"], cwd=str(home),
        env={**os.environ, "PYTHONPATH": str(ROOT)}, encoding="utf-8", timeout=120,
    )  # fmt: skip
    child.expect("environment: ")
    child.sendeof()
    child.expect("hpcpod: no answer: nothing is written")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2

"""An environment that hangs or ends its process is tried apart, and is a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.pod.trial import supervisor
from hpcpod.run.preflight import check
from tests.support.command_line import problem, refusal, without_progress
from tests.support.small_runs import mapping, wait_for

pytestmark = pytest.mark.usefixtures("apart")

BAD = "tests.support.trial_envs:Bad"


def bad(where: str, how: str, worker: Path | str = "", seconds: float = 4.0) -> list[str]:
    """Options of a command."""
    kwargs = f"{{where: {where}, how: {how}, worker: '{worker}'}}"
    task = {"id": BAD, "kwargs": kwargs, "trial_seconds": str(seconds)}
    return [word for name, value in task.items() for word in ("--set", f"env.{name}={value}")]


HANGS = {
    "make": "making 2 of it",
    "reset": "resetting it for the first time",
    "step": "stepping it for the first time",
}


@pytest.mark.parametrize("where", HANGS)
def test_an_environment_that_hangs_is_ended_with_all_that_it_has_started(
    home: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    verb = {"make": "launch", "reset": "validate", "step": "train"}[where]
    said = refusal(capsys, verb, "good.yaml", *bad(where, "hang", home / "pid"))
    [first, sentence, last] = said.splitlines()
    assert first == "hpcpod: good.yaml has 1 problem"
    assert sentence.startswith(
        f"  env.id: {BAD} hangs: nothing has happened for 4 s while {HANGS[where]} (line "
    )
    assert sentence.endswith(
        " of trial_envs.py); if it only is slow, give it more (env.trial_seconds); the last that it"
        " printed:"
    )
    assert last == "    waiting for the licence server"
    assert not Path("runs").exists()
    worker = int(Path("pid").read_text())
    wait_for("the end of its worker", lambda: not psutil.pid_exists(worker))


ENDS = {
    "exit": "it ended with exit code 3; the last that it printed:\n    no licence\n",
    "segfault": " of trial_envs.py): it was ended by SIGSEGV\n",
    "abort": " of trial_envs.py): it was ended by SIGABRT\n",
}


@pytest.mark.parametrize("how", ENDS)
def test_an_environment_that_ends_its_process_is_told_of_by_how_it_ended(
    home: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    said = refusal(capsys, "launch", "good.yaml", *bad("step", how, home / "pid"))
    start = f"  env.id: {BAD} ended its process while stepping it for the first time"
    assert said.splitlines()[1].startswith(start)
    assert ENDS[how] in said
    worker = int(Path("pid").read_text())
    wait_for("the end of its worker", lambda: not psutil.pid_exists(worker))


def test_a_rule_that_ends_its_process_when_it_is_made_is_told_of_at_its_own_field(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = "class Mine:\n    def __init__(self, config):\n        os._exit(7)\n"
    (home / "ends.py").write_text(f"import os\n{made}")
    assert problem(
        capsys, "validate", "good.yaml", "--set", "population.allocator=ends:Mine"
    ).startswith("population.allocator: it ended its process while making ends:Mine")


@pytest.mark.parametrize("field", ["population.updater", "env.backend"])
def test_a_part_of_a_users_own_that_ends_its_process_is_told_of_at_its_own_field(
    home: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    (home / "dies.py").write_text(f"import os\nif os.getpid() != {os.getpid()}: os._exit(3)\n")
    assert problem(capsys, "validate", "good.yaml", "--set", f"{field}=dies:Mine") == (
        f"{field}: it ended its process while importing dies:Mine: it ended with exit code 3"
    )


def test_python_is_told_the_same(tmp_path: Path) -> None:
    kwargs = {"where": "reset", "how": "exit"}
    for call in (
        lambda: hpcpod.launch(mapping(env={"id": BAD, "kwargs": kwargs}), runs=tmp_path),
        lambda: hpcpod.train(env=BAD, env_kwargs=kwargs, env_steps=64),
    ):
        with pytest.raises(ConfigError, match=r"ended its process while resetting it for .*code 3"):
            call()


def test_a_trial_of_an_environment_alone_says_it_too(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [only] = [*bad("reset", "exit")[2:4]][1:]
    assert main(["envs", "check", BAD, "--num-envs", "2", "--set", only]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    start = f"hpcpod: {BAD} ended its process while resetting N = 2 for the first time"
    assert without_progress(said.err).startswith(start)
    assert "ended with exit code 3" in said.err


def test_a_slow_environment_is_tried_to_its_end_and_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "QUIET_SECONDS", 0.2)
    env = {"id": BAD, "kwargs": {"where": "make", "how": "slow"}, "trial_seconds": 60}
    check(from_mapping(mapping(env=env)))
    words = [line for line in caplog.messages if line.startswith(f"{BAD} is being tried for ")]
    assert any(line.endswith(" s: making 4 of it") for line in words)


def test_what_is_seen_apart_is_what_is_seen_here(monkeypatch: pytest.MonkeyPatch) -> None:
    config = from_mapping(mapping("ppo", "dqn"))
    apart = check(config)
    monkeypatch.setattr(supervisor, "known_here_alone", lambda *given: True)
    assert check(config) == apart


SCRIPT = """\
import gymnasium, hpcpod
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Mine(CartPoleEnv):
    pass

gymnasium.register("Mine-v0", Mine, max_episode_steps=50)
for env in ("Mine-v0", "__main__:Mine"):
    task = {"env": env, "env_steps": 64, "episodes": 2, "max_episode_steps": 50}
    print(hpcpod.train(**task, horizon=16, minibatch_size=16).kept.env_steps)
"""


def test_what_only_a_script_knows_is_tried_in_it(home: Path) -> None:
    (home / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "mine.py"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2


def test_one_problem_of_many_is_told_as_before(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = problem(capsys, "validate", "good.yaml", "--set", "env.id=CartPol-v1")
    assert said.startswith("env.id: CartPol-v1 can't be made: ")

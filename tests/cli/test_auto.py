"""``launch --env``: a task's name and a budget are enough, and bad input is one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from hpcpod.cli.parser import main
from hpcpod.config.auto.choice import ALLOCATOR
from hpcpod.config.auto.task import ASSUMED
from hpcpod.config.loader import asks_auto, load_file
from hpcpod.config.yaml_file import read
from hpcpod.run import auto
from hpcpod.run.run import open_run
from tests.support.command_line import refusal


class Named(gym.Env[Any, Any]):
    """Acts by a mapping, which no agent supports."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Dict({"jump": gym.spaces.Discrete(2)})


class Both(gym.Env[Any, Any]):
    """Two choices at once: PPO alone of the candidates acts in it; ends after 10 steps."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 10
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self._left % 2, float(sum(action)), self._left == 0, False, {}


HERE = "tests.cli.test_auto"


def preview(capsys: pytest.CaptureFixture[str], tmp: Path, *words: str) -> Path:
    """The file of what ``validate`` prints of an environment whose speed is assumed."""
    assert main(["validate", *words, "--no-measure"]) == 0, capsys.readouterr().err
    file = tmp / "printed.yaml"
    file.write_text(capsys.readouterr().out)
    return file


def test_what_validate_prints_is_a_configuration(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = preview(capsys, home, "--env", "CartPole-v1", "--minutes", "20", "--slots", "2")
    run = load_file(file)
    assert (run.name, run.stop.minutes, run.cluster.slots) == ("cartpole-v1", 20.0, 2)
    assert dict(run.population.algorithms) == {"ppo": 1.0, "dqn": 1.0}
    assert run.population.allocator == ALLOCATOR
    said = " ".join(file.read_text().replace("#", "").split())
    assert f"assumed, not measured: ppo {ASSUMED['ppo'].train:,g}, dqn" in said
    assert not (home / "runs").exists()


def test_what_validate_prints_reads_no_site_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "site.yaml").write_text("cluster: {partition: gpu, sbatch: {constraint: ib}}\n")
    words = ["--site", "site.yaml", "--set", "cluster.sbatch.constraint=null"]
    cluster = load_file(preview(capsys, home, "--env", "CartPole-v1", *words)).cluster
    assert (cluster.partition, cluster.sbatch, cluster.site) == ("gpu", {}, None)
    assert "\n  site: null" in (home / "printed.yaml").read_text()
    (home / "site.yaml").write_text("resources: {cpus_per_pod: 2}\n")
    run = load_file(preview(capsys, home, "--env", "CartPole-v1", *words[:2]))
    assert (run.resources.cpus_per_pod, run.cluster.site) == (2, None)


def test_a_budget_below_a_round_is_told_what_would_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("validate", "--env", "CartPole-v1", "--no-measure", "--env-steps")
    said = refusal(capsys, *words, "400")
    found = re.search(r"set stop\.env_steps to at least (\d+), or round\.env_steps to", said)
    assert found is not None
    assert main([*words, found[1]]) == main([*words, "400", "--set", "round.env_steps=400"]) == 0


def test_actions_decide_the_algorithms(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = {
        env: set(load_file(preview(capsys, home, "--env", env, "--minutes", "300")).agents)
        for env in ("Pendulum-v1", f"{HERE}:Both")
    }
    assert of == {"Pendulum-v1": {"ppo", "sac", "td3"}, f"{HERE}:Both": {"ppo"}}


CONFIGS = Path(__file__).parents[2] / "configs"
ON_A_GPU = {"Ant-v5 warp": "Warp's environments are made on a GPU"}
"""Tasks of configurations that are left out, each with the reason."""
PACKAGES = {"-v5": "mujoco", "LunarLander": "Box2D"}
"""Optional packages that tasks need, by a part of their names."""
DISCRETE = {"Acrobot-v1", "CartPole-v1", "LunarLander-v3"}


def tasks() -> dict[str, dict[str, Any]]:
    """The tasks of all configurations that come along: for each id, and backend, the sections that
    name it. Programs have none."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(CONFIGS.rglob("*.yaml")):
        whole, _ = read(path)
        env = {key: value for key, value in whole.get("env", {}).items() if key != "num_envs"}
        if env:
            name = " ".join([env["id"], *([env["backend"]] if "backend" in env else [])])
            evaluator = whole.get("pod", {}).get("evaluator", "panel")
            found.setdefault(name, {"env": env, "pod": {"evaluator": evaluator}})
    return found


TASKS = tasks()


def test_the_tasks_that_are_left_out_are_there() -> None:
    assert ON_A_GPU.keys() < TASKS.keys() and {"trading trading", "Humanoid-v5"} < TASKS.keys()


@pytest.mark.parametrize("name", sorted(TASKS.keys() - ON_A_GPU.keys()))
def test_each_task_of_the_configurations_gets_one_that_is_valid(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part, package in PACKAGES.items():
        if part in name:
            pytest.importorskip(package)
    asked = {"name": "chosen", "population": "auto", "stop": {"minutes": 60}, **TASKS[name]}
    (home / "auto.yaml").write_text(json.dumps(asked))
    run = load_file(preview(capsys, home, "auto.yaml"))  # what is printed has passed all checks
    assert (run.env.id, run.stop.minutes) == (name.split()[0], 60.0)
    able = {"ppo", "dqn"} if run.env.id in DISCRETE else {"ppo", "sac", "td3"}
    assert run.agents.keys() == run.population.algorithms.keys() <= able


def test_flags_and_fields_count_for_more_than_the_choice(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = preview(
        capsys, home, "--env", "CartPole-v1", "--env-steps", "500000",
        "--set", "population.pods.max=3", "--set", "agents.ppo.gamma=0.98", "--set", "name=mine",
    )  # fmt: skip
    run = load_file(file)
    assert (run.name, run.stop.env_steps, run.stop.minutes) == ("mine", 500_000, None)
    assert (run.population.pods.max, run.agents["ppo"]["gamma"]) == (3, 0.98)
    assert set(run.agents) == {"ppo"}


def test_a_file_may_ask_for_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "a.yaml").write_text(
        "name: a\nenv: {id: CartPole-v1, num_envs: 4}\npopulation: auto\nstop: {minutes: 3}\n"
    )
    run = load_file(preview(capsys, home, "a.yaml"))
    assert (run.env.num_envs, run.stop.minutes) == (4, 3.0)
    assert (
        refusal(capsys, "train", "a.yaml").splitlines()[1].startswith("  population: auto is for")
    )


def test_asking_for_it() -> None:
    assert asks_auto({"population": "auto"}) and asks_auto({"population": {"auto": True}})
    assert not asks_auto({}) and not asks_auto({"population": {"pods": {"max": 3}}})


def test_bad_input_is_a_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "launch", "--env", f"{HERE}:Named", "--minutes", "1")
    assert "Dict" in said and len(said.splitlines()) == 3  # the first says that it is looked at
    assert "Did you mean: `CartPole`" in refusal(capsys, "launch", "--env", "CartPol-v1")
    assert "name two tasks" in refusal(capsys, "launch", "good.yaml", "--env", "CartPole-v1")
    assert "launch needs a CONFIG file" in refusal(capsys, "launch")
    assert "launch needs a CONFIG file" in refusal(capsys, "launch", "--env", "")  # $TASK, unset
    for asked, wanted in (
        ("automatic", ": expected auto or a mapping"),
        ("{auto: no}", ".auto: ex"),
    ):
        said = refusal(capsys, "validate", "good.yaml", "--set", f"population={asked}")
        assert f"has 1 problem\n  population{wanted}" in said
    assert "--no-probe forbids" in refusal(capsys, "launch", "--env", "CartPole-v1", "--no-probe")
    said = refusal(
        capsys, "launch", "--env", "Pendulum-v1", "--set", "agents.dqn.gamma=0.9", "--no-measure"
    )
    assert "dqn acts in discrete spaces only" in said
    for minutes in ("0", "-1", "nan", "soon"):
        with pytest.raises(SystemExit) as ended:
            main(["launch", "--env", "CartPole-v1", "--minutes", minutes])
        assert ended.value.code == 2
        assert "expected minutes, above 0" in capsys.readouterr().err


@pytest.mark.long
def test_it_trains_by_what_was_measured_and_a_resumed_run_keeps_it(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "SECONDS", 0.3)
    short = ["--set", "stop.confirm_episodes=2", "--set", "stop.finalists=1"]
    assert main(["launch", "--env", "CartPole-v1", "--minutes", "0.5", *short]) == 0
    said = capfd.readouterr()
    assert "measuring how fast" in said.err and "# because " in said.out
    run = open_run("cartpole-v1")
    assert run.status().stop_reason == "minutes" and run.board().env_steps > 0
    document = (run.path / "config.json").read_bytes()
    assert b"because" in document and b"measured: ppo" in document
    # which of the two half a minute can train depends on how busy the machine is
    kept = set(run.folder.resolved.algorithms)
    why = document.decode()
    left_out = re.search(r"left out, since the budget trains them too little: ([a-z, ]+)", why)
    assert kept
    assert sorted([*kept, *(left_out[1].split(", ") if left_out else [])]) == ["dqn", "ppo"]
    main(["resume", "cartpole-v1"])  # it has finished: nothing is done, and nothing measured again
    assert "measuring" not in capfd.readouterr().err
    assert (run.path / "config.json").read_bytes() == document

"""Preflight: all that can be known before a run is made is said then, in one sentence."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import hpcpod
from hpcpod import plugins
from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.run.preflight import check, read_config
from tests.program.programs import mapping as program
from tests.support.command_line import GOOD, problem, refusal
from tests.support.small_runs import mapping

NUMBER = "math:pi is of type float, not a class or function"
UNUSABLE = {
    "cluster.launcher=math:pi": f"cluster.launcher: {NUMBER}",
    "cluster.launcher=math:sqrt": "cluster.launcher: math:sqrt can't be made: TypeError: ",
    "population.updater=math:pi": f"population.updater: {NUMBER}",
    "population.updater=builtins:id": "population.updater: builtins:id gives something of type int,"
    " which is no Updater: it lacks judge",
    "population.generator=math:pi": f"population.generator: {NUMBER}",
    "population.generator=sys:exit": "population.generator: sys:exit can't be made: SystemExit",
    "env.backend=math:pi": f"env.backend: {NUMBER}",
    "env.backend=nothing": "env.backend: unknown env 'nothing'",
    "env.backend=builtins:slice": "env.backend: builtins:slice can't be made: TypeError: ",
    "pod.evaluator=math:pi": f"pod.evaluator: {NUMBER}",
    "pod.evaluator=builtins:id": "pod.evaluator: builtins:id gives something of type int,"
    " which is no Evaluator: it lacks evaluate",
    "env.kwargs={gravitas: 3}": "env.id: CartPole-v1 refused its arguments (env.kwargs): ",
    "env.wrappers=[math:pi]": "env.wrappers: wrapper math:pi can't be made: TypeError: ",
    "env.wrappers=[nowhere:X]": "env.wrappers: wrapper 'nowhere:X' can't be imported: ",
    "env.wrappers=[builtins:type]": "env.wrappers: wrapper builtins:type gave a type, not a",
    "env.wrappers=[{gymnasium.wrappers:TimeLimit: {maximum: 3}}]": "env.wrappers: wrapper"
    " gymnasium.wrappers:TimeLimit can't be made: TypeError: ",
    "env.wrappers=[gymnasium.wrappers:NormalizeReward]": "env.wrappers: wrapper"
    " gymnasium.wrappers:NormalizeReward keeps statistics beyond an episode",
}


@pytest.mark.parametrize("override", UNUSABLE)
def test_a_part_that_will_not_do_is_named_by_its_path(
    home: Path, capsys: pytest.CaptureFixture[str], override: str
) -> None:
    said = problem(capsys, "validate", "good.yaml", "--set", override)
    assert said.startswith(UNUSABLE[override])


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("math:pi", "agents.math:pi: the agent math:pi has no dataclass 'Config'"),
        (
            "tests.config.agents:RaisesAsItLikes",
            "agents.tests.config.agents:RaisesAsItLikes:"
            " the agent's defaults are no configuration: KeyError: 'a file'",
        ),
        (
            "tests.support.unfit_agents:RaisesWhenMade",
            "population.algorithms.tests.support.unfit_agents:RaisesWhenMade:"
            " tests.support.unfit_agents:RaisesWhenMade can't be made: KeyError: 'weights'",
        ),
        (
            "tests.support.unfit_agents:NoAgent",
            "population.algorithms.tests.support.unfit_agents:NoAgent: "
            "tests.support.unfit_agents:NoAgent gives something of type NoAgent, which is no Agent:"
            " it lacks horizon, make_buffer, act,",
        ),
    ],
)
def test_an_agent_that_will_not_do_is_named_by_its_path(
    home: Path, capsys: pytest.CaptureFixture[str], agent: str, said: str
) -> None:
    words = ("--set", "agents={}", "--set", f"population.algorithms={{'{agent}': 1}}")
    long = ("--set", "round.env_steps=1000")
    assert problem(capsys, "validate", "good.yaml", *words, *long).startswith(said)


def test_without_a_probe_no_torch_is_loaded(home: Path) -> None:
    every = dict.fromkeys(plugins.known("agents"), 1)
    places = {"population.algorithms": json.dumps(every), "population.pods.max": len(every)}
    given = [word for place, value in places.items() for word in ("--set", f"{place}={value}")]
    words = ["validate", "good.yaml", "--no-probe", *given]
    code = (
        "import sys; from hpcpod.cli.parser import main;"
        f"sys.exit(main({words}) or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("override", "needed", "horizon"),
    [
        ("round.env_steps=15", 16, 8),
        ("agents.ppo.horizon={int: [8, 33]}", 66, 33),
        ("agents.ppo.horizon={choice: [40, 8]}", 80, 40),
    ],
)
@pytest.mark.parametrize("words", [[], ["--no-probe"]])
def test_a_round_holds_the_longest_iteration_that_a_pod_may_be_born_with(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    override: str,
    needed: int,
    horizon: int,
) -> None:
    said = problem(capsys, "validate", "good.yaml", "--set", override, *words)
    got = 15 if override == "round.env_steps=15" else 64
    assert said == (
        f"round.env_steps: must be at least {needed} for ppo, which updates after {horizon} steps"
        f" of 2 environments, got {got}"
    )


def test_a_round_that_just_holds_an_iteration_is_long_enough(home: Path) -> None:
    assert main(["validate", "good.yaml", "--set", "round.env_steps=16"]) == 0


def test_a_horizon_that_is_no_hyperparameter_is_found_by_the_probe(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = "tests.support.unfit_agents:FixedHorizon"
    (home / "good.yaml").write_text(GOOD.replace("ppo: 1", f"'{agent}': 1"))
    said = problem(capsys, "validate", "good.yaml", "--set", "agents={}")
    assert said.startswith(f"round.env_steps: must be at least 100 for {agent}, which updates")


def test_one_agent_may_be_scored_more_often_than_it_updates(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ("--set", "round.env_steps=1", "--set", "stop={}")
    assert main(["train", "good.yaml", "--env-steps", "40", *short]) == 0
    assert capsys.readouterr().out.count("env steps  return") == 3


def test_a_gpu_that_no_pod_is_given_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem(capsys, "validate", "good.yaml", "--set", "pod.device=cuda") == (
        "pod.device: cuda needs a GPU, but resources.gpus_per_pod is 0; set it to 1,"
        " or pod.device to auto"
    )


def test_processes_beside_a_simulator_on_the_gpu_are_refused_before_a_pod_starts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_gpu = ("--set", "env.backend=torch", "--set", "env.processes=2")
    said = refusal(capsys, "validate", "good.yaml", *on_gpu, "--set", "resources.gpus_per_pod=1")
    assert "env.processes: backend torch steps all environments on the pod's GPU at once" in said
    assert main(["validate", "good.yaml", *on_gpu]) == 0


@pytest.mark.parametrize("words", [[], ["--no-probe"]])
def test_a_problem_of_an_agent_hides_none_of_the_environment(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    both = ("--set", "env.id=CartPol-v1", "--set", "agents.ppo.gamma=2", *words)
    for verb in ("validate", "train") if not words else ("validate",):
        said = refusal(capsys, verb, "good.yaml", *both)
        assert "agents.ppo.gamma: must be in [0, 1], got 2" in said
        assert "env.id: CartPol-v1 can't be made: " in said


def test_a_run_without_an_end_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("validate", "good.yaml"), ("launch", "good.yaml")):
        assert problem(capsys, *words, "--set", "stop={}") == (
            "stop: nothing ends this run; give it a target, env_steps, minutes or rounds"
        )
    assert not (home / "runs").exists()
    with pytest.raises(ConfigError, match="nothing ends this run"):
        hpcpod.launch(mapping(stop={"rounds": None}), runs=home)


def test_a_budget_that_ends_before_pods_can_be_compared_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--set", "population.pods.max=4", "--set", "round.env_steps=2000"]
    words += ["--set", "stop.env_steps=7999", "--set", "population.allocator=halving"]
    said = problem(capsys, "validate", "good.yaml", "--no-probe", *words)
    assert said == (
        "stop.env_steps: the budget of 7999 steps ends before each of 4 pods has trained a round"
        " of 2000, so population.allocator has nothing to compare; set it to at least 8000, or"
        " lower population.pods.max or round.env_steps"
    )


def test_a_budget_in_which_no_round_ends_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["validate", "good.yaml", "--no-probe", "--set", "round.env_steps=2000"]
    assert problem(capsys, *words, "--set", "stop.env_steps=1999") == (
        "stop.env_steps: no round of 2000 steps (round.env_steps) ends within 1999; set"
        " stop.env_steps to at least 2000, or round.env_steps to at most 1999"
    )
    assert main([*words, "--set", "stop.env_steps=2000"]) == 0
    timed = program("", home, program={"seconds": 5.0}, stop={"env_steps": 1})
    assert check(from_mapping(timed), probe=False)  # its steps are not known


def test_ranks_that_their_nodes_can_t_have_are_one_problem_on_slurm_too() -> None:
    placed = {"cluster": {"launcher": "slurm"}, "pod": {"ranks": 2}}
    with pytest.raises(ConfigError) as caught:
        check(from_mapping(mapping(**placed, resources={"nodes_per_pod": 3})), probe=False)
    [said] = caught.value.problems
    assert said.startswith("resources.nodes_per_pod: 2 ranks can't be shared out evenly to 3")


def test_a_target_alone_is_an_end(home: Path) -> None:
    assert main(["validate", "good.yaml", "--set", "stop={target: 475}"]) == 0


def test_a_name_that_no_filesystem_would_take_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = problem(capsys, "launch", "good.yaml", "--set", f"name={'a' * 300}")
    assert said == "name must be at most 200 bytes long, got 300"


def test_what_no_memory_could_hold_is_refused_before_it_is_made(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dqn = GOOD.replace("ppo: 1", "dqn: 1").replace(
        "{ppo: {horizon: 8, minibatch_size: 16, epochs: 1}}", "{dqn: {buffer_size: 10000000000000}}"
    )
    (home / "good.yaml").write_text(dqn)
    said = problem(capsys, "validate", "good.yaml")
    assert said.startswith("population.algorithms.dqn: more memory is needed than the ")
    assert "Allocator" not in said


def test_the_probe_gives_the_memory_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert main(["validate", "good.yaml"]) == 0
    capsys.readouterr()
    problem(capsys, "validate", "good.yaml", "--set", "env.id=CartPol-v1")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


SLIPS = {
    "env.num_envs=1000000000": "env.num_envs: must be at most 131072",
    "round.episodes=1000000000": "round.episodes: must be at most 131072",
    "population.pods.max=1000000000": "population.pods.max: must be at most 131072",
    "agents.ppo.hidden=1000000": "agents.ppo.hidden: must be at most 8192, got 1000000",
    "agents.ppo.layers=100000000": "agents.ppo.layers: must be at most 64, got 100000000",
}


@pytest.mark.parametrize("override", SLIPS)
def test_what_would_take_minutes_to_make_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], override: str
) -> None:
    assert problem(capsys, "validate", "good.yaml", "--set", override).startswith(SLIPS[override])


@pytest.mark.parametrize("verb", ["validate", "launch"])
def test_an_unknown_environment_is_found_without_making_it(
    home: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    said = problem(capsys, verb, "good.yaml", "--no-probe", "--set", "env.id=CartPol-v1")
    assert said.startswith("env.id: CartPol-v1 can't be made: ")
    assert not (home / "runs").exists()


def test_without_a_probe_a_path_may_be_one_that_only_slots_can_import(home: Path) -> None:
    assert main(["validate", "good.yaml", "--no-probe", "--set", "env.id=nowhere:Env"]) == 0


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("cluster.sbatch={array: '1'}", "cluster.sbatch: 'array' can't be set here"),
        ("cluster.template=/nowhere", "cluster.template: there is no folder /nowhere"),
        ("cluster.template=mine", "unknown in a template: @{fodler}; did you mean 'folder'?"),
    ],
)
def test_batch_scripts_are_rendered_before_anything_is_submitted(
    home: Path, capsys: pytest.CaptureFixture[str], override: str, said: str
) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "pod_array.sbatch").write_text("#!/bin/sh\ncd @{fodler}\n")
    slurm = ("--cluster", "slurm", "--set", override)
    assert problem(capsys, "validate", "good.yaml", *slurm).startswith(said)
    assert problem(capsys, "launch", "good.yaml", *slurm).startswith(said)
    assert main(["validate", "good.yaml", "--set", override]) == 0
    assert not (home / "runs").exists()


def test_a_run_finds_its_templates_from_wherever_somebody_ticks(home: Path) -> None:
    def kept(template: str) -> str:
        override = f"cluster.template={template}"
        return read_config("good.yaml", set_options=[override]).cluster.template

    assert kept("mine") == str(home / "mine")
    assert kept("~/mine") == str(Path("~/mine").expanduser())
    assert kept("default") == "default"
    old = read_config("good.yaml", set_options=["env.python=old/bin/python"])
    assert old.env.python == str(home / "old/bin/python")


def test_every_kind_of_problem_is_said_at_once(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(
        capsys, "validate", "good.yaml", "--cluster", "slurm", "--set", "round.env_steps=1",
        "--set", "stop={}", "--set", "cluster.sbatch={array: '1'}", "--set", "env.id=Nothing-v0",
        "--set", "population.updater=math:pi", "--set", "pod.evaluator=math:pi",
    )  # fmt: skip
    assert said.startswith("hpcpod: good.yaml has 6 problems\n")


def test_a_plugin_beside_a_configuration_elsewhere_is_found_also_by_slots(home: Path) -> None:
    other, here = home / "other", home / "here"
    other.mkdir()
    here.mkdir()
    (other / "lies_beside.py").write_text(
        "from hpcpod.agents.ppo import PPO\n\n\nclass Mine(PPO):\n    pass\n"
    )
    (other / "mine.yaml").write_text(GOOD.replace("ppo", "lies_beside:Mine"))
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "launch", "../other/mine.yaml"],
        cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished: rounds" in done.stdout


def test_the_folder_of_a_configuration_is_remembered(home: Path) -> None:
    other = home / "other"
    other.mkdir()
    (other / "mine.yaml").write_text(GOOD)
    read_config("other/mine.yaml")
    assert str(other) in plugins.module_folders()

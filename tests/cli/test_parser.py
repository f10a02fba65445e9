"""The command line as a person meets it, bad input above all."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.run import open_run
from hpcpod.storage.disk import check_writable
from tests.support.command_line import GOOD, refusal

BAD = {
    "population.algorithms={pop: 1}": "agents.ppo has hyperparameters, but",
    "env.id=CartPol-v1": "Did you mean: `CartPole`?",
    "env.id=my_pkg.mod:Env": "'my_pkg.mod:Env' can't be imported",
    "env.num_env=3": "env.num_env: unknown key; did you mean 'num_envs'?",
    "round.env_steps=many": "round.env_steps: expected int, got 'many'",
    "agents.ppo.learning_rate={log_uniform: [1.0e-2, 1.0e-5]}": "the range's ends are swapped",
    "agents.ppo.gamma=1.7": "agents.ppo.gamma: must be in [0, 1], got 1.7",
    "agents.ppo.learning_rat=0.1": "did you mean 'learning_rate'?",
    "population.updater=paired_gat": "did you mean 'paired_gate'?",
    "cluster.launcher=slrm": "did you mean 'slurm'?",
    "pod.ranks=0": "pod.ranks: ",
    "pod.fusion.scheme=meen": "pod.fusion.scheme: ",
    "resources.nodes_per_pod=3": "resources.nodes_per_pod: ",
    "pod.device=quantum": "pod.device: ",
    "population.scheme=islands": "expected one of 'tournament', 'generational', got 'islands'",
    "name=../escape": "name must be made of",
    "stop.target=.nan": "stop.target",
}


@pytest.mark.parametrize("override", BAD)
@pytest.mark.parametrize("verb", ["validate", "launch"])
def test_a_bad_field_is_one_clear_sentence_and_leaves_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], verb: str, override: str
) -> None:
    said = refusal(capsys, verb, "good.yaml", "--set", override)
    assert BAD[override] in said
    assert said.startswith("hpcpod: good.yaml has 1 problem\n")
    assert not (home / "runs").exists()


def test_every_problem_is_said_at_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(
        capsys, "validate", "good.yaml",
        "--set", "env.id=CartPol-v1", "--set", "cluster.launcher=slrm",
        "--set", "population.generator=gentle",
    )  # fmt: skip
    assert "good.yaml has 3 problems" in said


def test_an_algorithm_that_cannot_act_there_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "dqn.yaml").write_text(
        "name: x\nenv: {id: Pendulum-v1}\npopulation: {algorithms: {dqn: 1}}\n"
    )
    said = refusal(capsys, "launch", "dqn.yaml")
    assert "dqn acts in discrete spaces only" in said
    assert "use ppo" in said


def test_a_syntax_error_names_line_and_column(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "broken.yaml").write_text("name: x\nenv: {id: a\n  b: ]")
    assert "line 3, column 4: not valid YAML" in refusal(capsys, "validate", "broken.yaml")


def test_a_missing_file_suggests_a_near_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'good.yaml'?" in refusal(capsys, "validate", "god.yaml")


def test_a_folder_that_cannot_be_made_is_the_user_s_mistake(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "file").write_text("")
    assert "file" in refusal(capsys, "launch", "good.yaml", "--runs", "file/runs")
    assert "/proc/nowhere" in refusal(capsys, "launch", "good.yaml", "--runs", "/proc/nowhere")


def test_a_scheduler_that_is_not_there_leaves_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    said = refusal(capsys, "launch", "good.yaml", "--cluster", "slurm")
    assert "there is no squeue on this machine" in said
    assert not (home / "runs" / "small").exists()


def test_validate_prints_config_quotas_and_disk(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "good.yaml"]) == 0
    said = capsys.readouterr().out
    assert "name: small" in said
    assert "# births: 1 ppo" in said
    assert "# disk that the run will need: about" in said
    assert not (home / "runs").exists()


def test_what_validate_prints_is_a_configuration_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["validate", "good.yaml"])
    first = capsys.readouterr().out
    (home / "again.yaml").write_text(first)
    main(["validate", "again.yaml"])
    assert capsys.readouterr().out == first


def test_validate_says_whether_launch_could_make_the_folder(
    home: Path, capsys: pytest.CaptureFixture[str], finished_run: Path
) -> None:
    words = ["validate", "good.yaml", "--set", f"name={finished_run.name}", "--runs"]
    assert main([*words, str(finished_run.parent)]) == 0
    assert f"# launch would refuse: there is a run at {finished_run} already" in (
        capsys.readouterr().out
    )
    assert main([*words, "good.yaml"]) == 0
    assert "# launch would refuse: can't create the run folder good.yaml/" in (
        capsys.readouterr().out
    )
    assert main([*words, "/proc/runs"]) == 0
    assert "# launch would refuse: can't create the run folder /proc" in capsys.readouterr().out
    assert main([*words, "new/runs"]) == 0
    assert "refuse" not in capsys.readouterr().out
    assert not (home / "new").exists()


def test_a_run_that_found_no_policy_has_failed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--set", "round.env_steps=100000000", "--set", "stop={minutes: 0.02}")
    assert main(["launch", "good.yaml", *words]) == 1
    assert "no policy: the time (stop.minutes) was over before a pod" in capsys.readouterr().out


def test_validate_fields_is_the_manual(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--fields"]) == 0
    manual = capsys.readouterr().out
    assert "stop.confirm_episodes" in manual
    assert "Environment steps of the whole population." in manual


def test_status_of_a_finished_run_as_json(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(finished_run), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["state"] == "finished"
    assert status["stop_reason"] == "rounds"
    assert status["best"]["fresh"] is True
    assert status["best"]["low"] <= status["best"]["mean"] <= status["best"]["high"]
    assert status["rounds"] > 0
    assert status["env_steps"] > 0
    assert status["slots"] == {}


def test_looking_at_no_run_is_a_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("status", "watch", "leaderboard", "logs", "stop", "resume", "tick", "export"):
        assert "there is no run at nowhere" in refusal(capsys, verb, "nowhere")


def test_status_without_a_run_lists_all(
    finished_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = finished_run.with_name(".tmp-doctor-1")
    doctor.mkdir()
    (doctor / "config.json").write_text("{}")
    monkeypatch.setenv("HPCPOD_RUNS", str(finished_run.parent))
    try:
        assert main(["status"]) == 0
        said = capsys.readouterr()
        assert finished_run.name in said.out
        assert said.err == ""
    finally:
        shutil.rmtree(doctor)


def test_a_finished_run_is_not_resumed(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing to resume" in refusal(capsys, "resume", str(finished_run))


def test_ticking_and_stopping_a_finished_run_changes_nothing(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = open_run(finished_run).board()
    assert main(["tick", str(finished_run)]) == 0
    assert main(["stop", str(finished_run)]) == 0
    assert open_run(finished_run).board() == before
    assert "finished (rounds)" in capsys.readouterr().out


def test_export_writes_a_policy(finished_run: Path, tmp_path: Path) -> None:
    import hpcpod

    to = tmp_path / "policy.h5"
    assert main(["export", str(finished_run), str(to)]) == 0
    assert main(["export", str(finished_run), str(to), "--overwrite"]) == 0
    assert hpcpod.load_policy(to)([0.0, 0.0, 0.0, 0.0]) in (0, 1)


UNWRITABLE = ["/proc/nowhere.h5", "no/such/x.h5", "good.yaml/x.h5", "folder", f"{'a' * 300}.h5"]


@pytest.mark.parametrize("to", UNWRITABLE)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    home: Path, capsys: pytest.CaptureFixture[str], finished_run: Path, to: str
) -> None:
    (home / "folder").mkdir()
    before = sorted(home.rglob("*"))
    said = refusal(capsys, "train", "good.yaml", "--env-steps", "64", "--save-to", to)
    assert said.startswith(f"hpcpod: can't write {to}: ")
    said = refusal(capsys, "export", str(finished_run), to)
    assert said.startswith(f"hpcpod: can't write {to}: ")
    assert "--pod is with -o" in refusal(capsys, "export", str(finished_run), "--pod", "p0001")
    said = refusal(capsys, "export", str(finished_run), "good.yaml")
    assert said.startswith("hpcpod: can't write good.yaml: it is there already; ")
    assert sorted(home.rglob("*")) == before


def test_looking_whether_a_file_can_be_written_makes_nothing(home: Path) -> None:
    check_writable(home / "policy.h5", overwrite=False)
    check_writable(home / "good.yaml", overwrite=True)
    assert sorted(home.rglob("*")) == [home / "good.yaml"]


def test_logs_shows_a_slot_s_log(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(finished_run), "-n", "1000"]) == 0  # a busy slot says more than 20
    assert "slot local-" in capsys.readouterr().out
    assert "has 'nobody' in its name" in refusal(capsys, "logs", str(finished_run), "nobody")


@pytest.mark.parametrize("lines", ["0", "-3", "many"])
def test_a_count_of_lines_is_one_at_least(
    finished_run: Path, capsys: pytest.CaptureFixture[str], lines: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["logs", str(finished_run), "-n", lines])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"-n/--lines: expected a whole number, at least 1, got '{lines}'" in said


def test_following_the_logs_finds_those_that_come_later(finished_run: Path, home: Path) -> None:
    run = home / "runs" / "copied"
    shutil.copytree(finished_run, run)
    command = [sys.executable, "-m", "hpcpod", "logs", str(run), "-f", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline().startswith("==> ")
        (run / "logs" / "slot-late.log").write_text("hello\n")
        assert "slot-late: hello\n" in iter(following.stdout.readline, "")
        following.kill()


def test_help_of_every_verb_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "hpcpod launch configs/cartpole.yaml --cluster slurm" in said
    listed = re.search(r"^ +VERB\n(.*?)^\S", said, re.MULTILINE | re.DOTALL)
    assert listed is not None
    verbs = re.findall(r"^    (\w+)", listed[1], re.MULTILINE)
    assert {"launch", "scale", "pause", "resume", "stop", "why", "logs", "status"} <= set(verbs)
    for verb in verbs:
        with pytest.raises(SystemExit) as ended:
            main([verb, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert re.search(rf"^  .*\bhpcpod {verb}\b", shown, re.MULTILINE), shown


def test_a_reader_that_goes_away_is_no_error(finished_run: Path) -> None:
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m hpcpod leaderboard {finished_run} --json | head -c 1",
        shell=True, capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout == "{"
    assert done.stderr == ""


def test_the_first_algorithm_of_several_is_trained_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(__file__).parents[2] / "configs" / "cartpole.yaml"  # PPO's and DQN's settings
    small = ("--env-steps", "64", "--set", "env.num_envs=2", "--set", "round.episodes=2")
    assert main(["train", str(config), *small]) == 0
    assert "kept: the best" in capsys.readouterr().out


def test_training_one_agent_prints_its_curve_and_writes_its_policy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "good.yaml", "--env-steps", "128"]) == 0
    said = capsys.readouterr().out
    assert "env steps  return" in said
    assert re.search(r"kept: the best, at \d+ env steps: .* on \d+ episodes of fresh seeds", said)
    assert (home / "small.h5").exists()
    for named in ((), ("--save-to", "small.h5")):
        said = refusal(capsys, "train", "good.yaml", "--env-steps", "128", *named)
        assert said.startswith("hpcpod: can't write small.h5: it is there already; ")
        assert "--overwrite" in said
    assert main(["train", "good.yaml", "--env-steps", "128", "--overwrite", "--keep", "last"]) == 0
    assert re.search(r"kept: the last, at 128 env steps: \S+ \S+ \S+ on", capsys.readouterr().out)


def test_a_plugin_beside_the_configuration_is_found_by_slots_and_later_from_anywhere(
    home: Path,
) -> None:
    (home / "beside.py").write_text(
        "from hpcpod.agents.ppo import PPO\n\n\nclass Mine(PPO):\n    pass\n"
    )
    (home / "mine.yaml").write_text(GOOD.replace("ppo", "beside:Mine"))
    hpcpod = [sys.executable, "-m", "hpcpod"]
    done = subprocess.run([*hpcpod, "launch", "mine.yaml"], cwd=home, check=False)
    assert done.returncode == 0
    load = "import sys, hpcpod; print(hpcpod.load_policy(sys.argv[1]).about['agent'])"
    loaded = subprocess.run(
        [sys.executable, "-c", load, str(home / "runs" / "small")],
        cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert loaded.stdout.strip() == "beside:Mine"


RAISING = """\
import gymnasium


class Raising(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        if {where!r} == "init":
            raise KeyError("a missing file")

    def reset(self, *, seed=None, options=None):
        raise RuntimeError("the simulator is gone")
"""


@pytest.mark.parametrize("where", ["init", "reset", "import"])
def test_an_environment_that_raises_is_a_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    text = RAISING.format(where=where) if where != "import" else "1 / 0\n"
    (home / f"raises_{where}.py").write_text(text)
    said = refusal(capsys, "validate", "good.yaml", "--set", f"env.id=raises_{where}:Raising")
    reason = {"init": "KeyError", "reset": "RuntimeError: the simulator is gone", "import": "Zero"}
    assert reason[where] in said


def test_a_damaged_run_does_not_hide_the_others(
    finished_run: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = home / "runs"
    (runs / "damaged").mkdir(parents=True)
    (runs / "damaged" / "config.json").write_text("{")
    shutil.copytree(finished_run, runs / "sound")
    assert main(["status"]) == 0
    said = capsys.readouterr()
    assert "looked-at" in said.out
    assert "damaged" in said.err


def test_render_refuses_before_it_makes_anything(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("render", "--cluster", "local"), ("launch", "--dry-run")):
        said = refusal(capsys, *words, "good.yaml")
        assert said == "hpcpod: the launcher 'local' submits no scripts; add --cluster slurm\n"
    bad = ("render", "good.yaml", "--set", "cluster.sbatch={array: '1'}")
    assert "can't be set here" in refusal(capsys, *bad)
    assert not (home / "runs").exists()


def test_no_name_of_a_folder_steers_the_terminal_from_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a\x1b[31mx", "b\x1b]0;title\x07"):
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "config.json").write_text("{}")
    assert main(["watch", "runs/zzz"]) == 2
    said = capsys.readouterr().err
    assert "[31mx" in said and "\x1b" not in said and "\x07" not in said

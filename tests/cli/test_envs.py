"""``hpcpod envs``: what can be had here, and the trial of an environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from hpcpod import plugins
from hpcpod.cli import envs
from hpcpod.cli.parser import main
from hpcpod.envs.catalog import BACKENDS, FAMILIES
from hpcpod.envs.listing import list_envs, registered
from hpcpod.envs.mujoco.tasks import TASKS
from hpcpod.envs.torch_envs import DYNAMICS
from tests.support.command_line import refusal, without_progress
from tests.support.own_envs import ENVS, HANGING
from tests.test_surface import loaded_by

QUICK = ("--steps", "60", "--seconds", "0.01", "--num-envs", "2")

WITHOUT_MUJOCO = """\
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "mujoco":
            raise ModuleNotFoundError("No module named 'mujoco'", name="mujoco")

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def own(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with modules in it: ``own_envs``, and ``hanging``, which imports no
    torch: on a busy machine that took longer than the patience of its tests."""
    (home / "own_envs.py").write_text(ENVS)
    (home / "hanging.py").write_text(HANGING)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_envs", raising=False)
    return home


def hpcpod(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    where = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "hpcpod", *words], env={**os.environ, "PYTHONPATH": where},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_backend_is_listed_with_what_it_steps(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["envs"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"here: {list_envs().cpu_threads} CPU thread")
    for line in ("gymnasium: usable", "mujoco: usable", "torch: usable"):
        assert f"\n{line}\n" in said
    assert "  classic control  CartPole-v0 CartPole-v1" in said
    assert "hpcpod envs check CartPole-v1" in said
    assert max(map(len, said.splitlines()[1:])) <= 100


def test_as_json_it_is_the_same(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    backends = {backend["name"]: backend for backend in found["backends"]}
    assert backends.keys() == set(plugins.known("envs"))
    assert backends["mujoco"]["versions"]["mujoco"] == found["versions"]["mujoco"]
    families = {family["name"]: family for family in backends["gymnasium"]["families"]}
    assert "CartPole-v1" in families["classic_control"]["ids"]
    assert families.keys() >= {"classic_control", "toy_text", "mujoco", "box2d", "atari"}


@pytest.mark.parametrize("words", [["envs"], ["envs", "--json"], ["envs", "check", "--help"]])
def test_a_listing_loads_no_torch_and_no_simulator(words: list[str], tmp_path: Path) -> None:
    code = f"from hpcpod.cli.parser import main\ntry: main({words!r})\nexcept SystemExit: pass"
    code += "\nassert not {'mujoco', 'warp', 'Box2D', 'ale_py', 'jax'} & set(sys.modules)"
    assert loaded_by(code, tmp_path) == set()


def test_what_is_said_without_importing_a_backend_is_true() -> None:
    assert set(BACKENDS["hpcpod.envs.mujoco.env:MujocoVecEnv"].ids) == set(TASKS)
    assert set(BACKENDS["hpcpod.envs.mujoco.warp_env:WarpVecEnv"].ids) == set(TASKS)
    assert set(BACKENDS["hpcpod.envs.torch_envs:TorchVecEnv"].ids) == set(DYNAMICS)
    for path in BACKENDS:
        assert callable(plugins.load(path))


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_a_family_can_be_made_if_and_only_if_nothing_is_missing() -> None:
    ids = registered()
    assert ids.keys() >= {"classic_control", "toy_text", "mujoco", "box2d"}
    for family in ids.keys() & FAMILIES.keys():
        if not FAMILIES[family].missing:
            gym.make(ids[family][-1]).close()
        else:
            with pytest.raises((ImportError, gym.error.DependencyNotInstalled)):
                gym.make(ids[family][-1])


def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_MUJOCO)
    done = hpcpod("envs", path=(path := str(tmp_path)))
    assert done.returncode == 0
    line = 'mujoco: not usable: mujoco is not installed; pip install "hpcpod[mujoco]"'
    assert f"\n{line}\n" in done.stdout
    assert '  MuJoCo           not installed: mujoco; pip install "hpcpod[mujoco]"' in done.stdout
    assert "\ngymnasium: usable\n" in done.stdout
    done = hpcpod("envs", "check", "Ant-v5", "--backend", "mujoco", path=path)
    assert done.returncode == 2
    assert done.stdout == ""
    [last] = without_progress(done.stderr).splitlines()
    assert "pip install 'hpcpod[mujoco]'" in last


def test_a_gymnasium_that_cannot_be_imported_is_said(tmp_path: Path) -> None:
    (tmp_path / "gymnasium").mkdir()
    (tmp_path / "gymnasium" / "__init__.py").write_text("raise ImportError('half installed')\n")
    done = hpcpod("envs", path=str(tmp_path))
    assert done.returncode == 0
    said = "gymnasium can't be imported: ImportError: half installed"
    assert f"\ngymnasium: not usable: {said}; pip install --force-reinstall" in done.stdout


def test_plugins_of_others_are_listed_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far_away.py").write_text("raise RuntimeError('it was imported')\n")
    info = tmp_path / "far_away-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-away\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(
        "[hpcpod.envs]\nfar = far_away:Batch\ngone = far_gone.mod:Batch\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["envs"]) == 0
    said = capsys.readouterr().out
    assert "\nfar (far-away 2.0): usable\n" in said
    why = "far_gone is not installed"
    assert f'\ngone (far-away 2.0): not usable: {why}; pip install "far-away"\n' in said


def test_what_the_allocation_has_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    found = list_envs()
    assert found.gpus == ("0", "1")
    assert found.cpu_threads == 1


def test_a_sound_environment_is_described_checked_and_measured(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["envs", "check", "CartPole-v1", "--num-envs", "3", "--seconds", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1: N = 3 on cpu\n" in said
    assert "  action       one of 2 choices\n" in said
    assert "  time limit   500 steps\n" in said
    assert "contract: kept in 1000 random steps of N = 3, with " in said
    assert "speed with N =   3: " in said
    assert main(["envs", "check", "own_envs:Sound", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "  observation  box of float32 [3], -1 to 1\n" in said
    assert "  action       2 choices at once, of 2, 3\n" in said
    assert "  state        can be saved: rounds go on in the same episodes" in said
    assert "in which no episode ended" in said


def test_the_trial_as_json(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("envs", "check", "Pendulum-v1", "--backend", "torch", "--json", *QUICK)
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["about"]["spec"]["action_bounds"] == [-2, 2]
    assert found["about"]["saves_state"] is True
    assert found["contract"] == {"steps": 60, "num_envs": 2, "ends": 0, "strange": []}
    assert [speed["num_envs"] for speed in found["speed"]] == [2]
    assert found["speed"][0]["steps_per_second"] > 0


def test_a_configuration_says_what_to_try(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--json", "--steps", "20", "--seconds", "0.01", "--set", "env.num_envs=3")
    assert main(["envs", "check", "good.yaml", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["about"]["spec"]["id"] == "CartPole-v1"
    assert [speed["num_envs"] for speed in found["speed"]] == [1, 3, 16, 256]


def test_processes_step_it_where_they_are_asked_for(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("envs", "check", "own_envs:Sound", "--processes", "2", *QUICK)
    assert main(words) == 0
    assert "  stepped by   2 processes\n" in capsys.readouterr().out
    assert main(["envs", "check", "CartPole-v1", "--python", sys.executable, *QUICK]) == 0
    said = capsys.readouterr().out
    assert f"  stepped by   1 process of {sys.executable}\n" in said
    assert "contract: kept" in said


def test_what_auto_came_to_is_told(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("envs", "check", "own_envs:Slower", "--set", "resources.cpus_per_pod=2", *QUICK)
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "  backend      gymnasium\n" in said
    assert "  stepped by   2 processes\n" in said
    assert " environment steps/s by 2 processes, made" in said
    assert main(["envs", "check", "Hopper-v5", "--set", "resources.cpus_per_pod=2", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "  backend      mujoco\n" in said
    assert "  stepped by   this process, with at most 2 threads\n" in said


BROKEN: dict[str, tuple[list[str], str]] = {
    "an unknown id": (["CartPol-v1"], "Did you mean: `CartPole`?"),
    "unknown to torch": (["CartPol-v1", "--backend", "torch"], "did you mean 'CartPole-v1'?"),
    "no backend": (["CartPole-v1", "--backend", "torc"], "did you mean 'torch'?"),
    "no module": (["nowhere:Env"], "'nowhere:Env' can't be imported"),
    "no device": (["CartPole-v1", "--device", "quantum"], "device 'quantum' can't be used here"),
    "an argument": (["Pendulum-v1", "--set", "env.kwargs.h=5"], "argument 'h'"),
    "a field": (["Pendulum-v1", "--set", "env.kwarg.g=5"], "did you mean 'kwargs'?"),
    "no file": (["god.yaml"], "did you mean 'good.yaml'?"),
    "processes": (["CartPole-v1", "--processes", "9"], "processes must be at most num_envs"),
    "python": (["CartPole-v1", "--python", "/no/python"], "/no/python"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_made_is_one_sentence(
    own: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    words, sentence = BROKEN[case]
    assert sentence in refusal(capsys, "envs", "check", *words)


FAULTS: dict[str, tuple[list[str], str]] = {
    "nan": (["own_envs:NotANumber"], "own_envs:NotANumber: the reward of environment 0 is not"),
    "raises": (["own_envs:Raising"], "Raising raised RuntimeError: the simulator is gone"),
    "hangs": (
        ["hanging:Hanging", "--patience", "8"],
        "Hanging hangs: nothing has happened for 8 s while checking the contract in 60 steps (line",
    ),
    "hangs in a process": (
        ["hanging:Hanging", "--patience", "8", "--processes", "2"],
        "Hanging hangs: nothing has happened for 8 s while ",
    ),
    "hangs where it is measured": (
        ["hanging:Hanging", "--patience", "8", "--set", "resources.cpus_per_pod=2"],
        "Hanging hangs: nothing has happened for 8 s while making N = 2",
    ),
    "aliases": (
        ["CartPole-v1", "--backend", "own_envs:Aliasing"],
        "CartPole-v1 breaks the environment contract: step() overwrites tensors",
    ),
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("case", FAULTS)
def test_a_broken_promise_is_one_sentence(
    own: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    words, sentence = FAULTS[case]
    assert main(["envs", "check", *words, *QUICK]) == 2
    said = capsys.readouterr()
    *meanwhile, last = said.err.splitlines()
    assert last.startswith("hpcpod: ")
    assert sentence in last
    assert all(line.endswith(" ...") for line in meanwhile)  # on a busy machine
    assert "contract" not in said.out


def test_a_batch_that_takes_long_to_make_is_left_out(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--steps", "20", "--seconds", "0.01", "--set", "env.num_envs=1"]
    assert main(["envs", "check", "own_envs:Heavy", *words]) == 0
    said = capsys.readouterr().out
    assert "speed with N =  16: " in said
    assert "speed with N = 256: not measured" in said


def test_what_it_takes_to_choose_who_steps_grows_with_no_batch(
    own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envs, "SIZES", (1, 2, 80))
    words = ["--steps", "20", "--seconds", "0.01", "--set", "env.num_envs=1"]
    two = ["--set", "resources.cpus_per_pod=2"]
    assert main(["envs", "check", "own_envs:Sleeping", *words, *two]) == 0
    said = capsys.readouterr().out
    assert "speed with N =  80: " in said
    assert "not measured" not in said


def test_a_terminal_shows_what_is_being_done_and_keeps_none_of_it() -> None:
    ours, theirs = os.openpty()
    words = ("envs", "check", "CartPole-v1", *QUICK)
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", *words], stdout=subprocess.PIPE, stderr=theirs,
        text=True, check=True,
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "checking the contract in 60 steps ..." in shown
    assert shown.endswith("\r\x1b[K")
    assert "..." not in done.stdout


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in {
        ("envs", "--help"): "hpcpod envs check my_pkg.mod:MyEnv --num-envs 64 --processes 4",
        ("envs", "check", "--help"): "breaks a promise is one sentence and exit code 2",
    }.items():
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert sentence in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--num-envs", "0"], ["--steps", "few"]])
def test_a_number_that_cannot_be_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["envs", "check", "CartPole-v1", *words])
    assert ended.value.code == 2
    assert f"argument {words[0]}: expected" in capsys.readouterr().err

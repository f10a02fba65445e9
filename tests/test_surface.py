"""The public surface: what can be imported, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hpcpod
import hpcpod.envs
from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.envs.checking import check_env
from hpcpod.envs.vec_env import VecEnv
from hpcpod.launchers.base import Launcher
from hpcpod.metrics.logger import Logger
from hpcpod.pod.evaluator import Evaluator
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Turns
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.tournament.allocation import Allocator
from hpcpod.tournament.judgement import Updater
from hpcpod.tournament.proposals import Generator

HEAVY = {"torch", "numpy", "mpi4py", "isaacgym", "gymnasium", "h5py", "submitit", "rich"}


def loaded_by(code: str, cwd: Path) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after ``code``."""
    ask = f"import sys\n{code}\nprint(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_all_names_what_resolves() -> None:
    assert hpcpod.__all__ == [
        "Run",
        "compare",
        "ct",
        "ensemble",
        "evaluate",
        "export_policy",
        "launch",
        "load_policy",
        "make_env",
        "open_run",
        "open_sweep",
        "session",
        "sessions",
        "sweep",
        "train",
        "write_report",
    ]
    for name in hpcpod.__all__:
        assert callable(getattr(hpcpod, name))
    assert set(hpcpod.__all__) <= set(dir(hpcpod))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        hpcpod.lunch  # noqa: B018


def test_environments_are_checked_by_a_public_name() -> None:
    assert hpcpod.envs.check_env is check_env
    assert "check_env" in dir(hpcpod.envs)
    with pytest.raises(AttributeError, match=r"'hpcpod\.envs' has no attribute 'check_evn'"):
        hpcpod.envs.check_evn  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import hpcpod, hpcpod.cli.parser; hpcpod.cli.parser.parser()",
        "import hpcpod; hpcpod.open_run; hpcpod.Run; hpcpod.compare",
        "import hpcpod; hpcpod.session()",
        "import hpcpod.slot, hpcpod.orchestrator",
        "import hpcpod.launchers.slurm.launcher, hpcpod.launchers.local",
        "import hpcpod.envs",
    ],
)
def test_the_upper_floors_load_nothing_heavy(code: str, tmp_path: Path) -> None:
    assert loaded_by(code, tmp_path) == set()


def test_status_report_and_help_load_no_torch(finished_run: Path) -> None:
    run = str(finished_run)
    for words in (["status", run], ["status", run, "--json"], ["report", run]):
        code = f"from hpcpod.cli.parser import main\nassert main({words!r}) == 0"
        assert loaded_by(code, finished_run.parent) == set()
    code = "from hpcpod.cli.parser import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_by(code, finished_run.parent) == set()


def test_a_launch_loads_no_torch_itself(tmp_path: Path) -> None:
    task = {"name": "x", "env": {"id": "CartPole-v1"}, "stop": {"rounds": 1}}
    code = (
        "from hpcpod.run.preflight import check, read_config\n"
        f"checked = check(read_config({task!r}))\n"
        "assert set(checked.resolved.algorithms) == set(checked.footprints) != set()"
    )
    assert loaded_by(code, tmp_path) == set()


PARTS: dict[str, tuple[type, set[str]]] = {
    "agents": (Agent, {"ppo", "a2c", "dqn", "sac", "td3", "ddpg"}),
    "envs": (
        VecEnv,
        {"gymnasium", "torch", "vector", "mujoco", "warp", "envpool", "isaaclab"},
    ),
    "generators": (
        Generator,
        {
            "gentle_truncation",
            "multi_frequency",
            "pb2",
            "random_search",
            "ranking",
            "restarts",
        },
    ),
    "allocators": (
        Allocator,
        {"auto", "fair", "halving", "replicates", "ocba", "thompson", "curves"},
    ),
    "updaters": (Updater, {"paired_gate", "welch_gate", "ranking", "pareto"}),
    "evaluators": (Evaluator, {"panel"}),
    "workers": (Turns, {"batched"}),
    "learners": (Learner, {"update"}),
    "fusions": (Fusion, {"mean", "nesterov", "grad_allreduce", "none"}),
    "loggers": (Logger, {"tensorboard", "wandb", "trackio", "mlflow"}),
    "launchers": (Launcher, {"local", "slurm"}),
}
"""What the parts of each group must do, and the names that configurations of old runs hold."""


@pytest.mark.parametrize("group", PARTS)
def test_every_built_in_part_is_found_by_its_name_and_does_what_its_group_must(group: str) -> None:
    kind, names = PARTS[group]
    assert names <= set(plugins.known(group))
    methods = {
        name for name, member in vars(kind).items() if not name.startswith("_") and callable(member)
    }
    assert methods
    for name in names:
        part = plugins.resolve(group, name)
        assert isinstance(part, type), name
        assert {method for method in methods if not callable(getattr(part, method, None))} == set()


def test_a_verb_ends_without_a_last_search_for_garbage() -> None:
    """With torch loaded, as by launch --no-probe, it took a fifth of the verb's processor time."""
    verb = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0));"
        "from hpcpod.cli.parser import main; main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", verb], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"

"""The public surface: what can be imported, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import hpcpod
import hpcpod.envs
from hpcpod import plugins
from hpcpod.envs.vec_env import check_env

HEAVY = {"torch", "numpy", "mpi4py", "isaacgym", "gymnasium", "h5py", "submitit", "rich"}


def loaded_by(code: str, cwd: Path) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after ``code``."""
    ask = f"import sys\n{code}\nprint(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_all_names_what_resolves() -> None:
    assert hpcpod.__all__ == ["Run", "launch", "load_policy", "make_env", "open_run", "train"]
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
        "import hpcpod; hpcpod.open_run; hpcpod.Run",
        "import hpcpod.slot, hpcpod.orchestrator",
        "import hpcpod.launchers.slurm.launcher, hpcpod.launchers.local",
        "import hpcpod.envs",
    ],
)
def test_the_upper_floors_load_nothing_heavy(code: str, tmp_path: Path) -> None:
    assert loaded_by(code, tmp_path) == set()


def test_status_and_help_load_no_torch(finished_run: Path) -> None:
    for words in (["status", str(finished_run)], ["status", str(finished_run), "--json"]):
        code = f"from hpcpod.cli.parser import main\nassert main({words!r}) == 0"
        assert loaded_by(code, finished_run.parent) == set()
    code = "from hpcpod.cli.parser import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_by(code, finished_run.parent) == set()


@pytest.mark.parametrize(
    "group", ["agents", "envs", "generators", "updaters", "evaluators", "launchers"]
)
def test_every_built_in_plugin_resolves(group: str) -> None:
    points = entry_points(group=f"hpcpod.{group}")
    assert points
    for point in points:
        assert plugins.resolve(group, point.name) is plugins.load(point.value)

"""The price of a look at a run: one question to the scheduler at most, and no coordinator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.records.records import Intent
from hpcpod.run.run import Run
from hpcpod.storage.requests import Drain, Scale
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.run_id import run_id
from tests.launchers.slurm.test_scripts import fake
from tests.support.small_runs import create

LOOKS = [
    ["status"],
    ["status", "--json"],
    ["why"],
    ["why", "p0001"],
    ["watch"],
    ["leaderboard"],
    ["advise"],
]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that is first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sinfo", "scontrol", "sacct"):
        fake(folder, name, "exit 1")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture(autouse=True)
def _no_orchestrator(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*arguments: object) -> None:
        pytest.fail("a look built an Orchestrator")

    monkeypatch.setattr(Orchestrator, "__init__", built)


def counted(folder: Path, name: str, script: str) -> Path:
    """A command that leaves a line for each call in the file returned."""
    calls = folder / f"{name}.calls"
    calls.touch()
    fake(folder, name, f'echo "$@" >> {calls}\n{script}')
    return calls


def look(folder: RunFolder, verb: list[str], calls: Path) -> int:
    """Calls of a command while somebody looks."""
    before = len(calls.read_text().splitlines())
    assert main([verb[0], str(folder.path), *verb[1:]]) in (0, 75)
    return len(calls.read_text().splitlines()) - before


@pytest.mark.parametrize("verb", LOOKS, ids=" ".join)
def test_a_look_at_a_run_on_a_cluster_asks_squeue_once_at_most(
    verb: list[str], tmp_path: Path, commands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(tmp_path, "ppo", "dqn", cluster={"launcher": "slurm"})
    folder.intents.publish(Intent(0, "t0", "slots", 2, target=2))
    folder.intents.record(0, "7")
    mark = f"hpcpod:{run_id(folder.path)}:slots:t0"
    waits = f"N/A|7_0|PENDING|0|0:00|10:00|N/A|low||Priority|{mark}|"
    gone = f"9999999999|7_1|CANCELLED|0|0:00|10:00|N/A|low||None|{mark}|"
    calls = counted(commands, "squeue", f"echo '{waits}'; echo '{gone}'")
    if verb == ["watch"]:  # ends by itself if the run has paused
        folder.requests.publish(Drain())
    assert look(folder, verb, calls) == (0 if verb in (["leaderboard"], ["advise"]) else 1)
    said = capsys.readouterr().out
    if verb in (["status"], ["why"]):
        assert "Priority" in said
        assert "1 slot was cancelled" in said


def test_a_scheduler_that_does_not_answer_is_not_asked_again(
    tmp_path: Path, commands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(tmp_path, cluster={"launcher": "slurm"})
    calls = counted(commands, "squeue", "echo 'squeue: error: down' >&2; exit 1")
    assert look(folder, ["why"], calls) == 1
    assert "what waits in the queue can't be told here: squeue failed: down" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("verb", LOOKS, ids=" ".join)
def test_a_look_at_a_run_here_counts_no_gpus(
    verb: list[str], tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    calls = counted(commands, "nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'")
    folder = create(tmp_path, resources={"gpus_per_pod": 1})
    if verb == ["watch"]:
        folder.requests.publish(Drain())
    assert look(folder, verb, calls) == 0


def test_slots_of_gpus_are_wanted_as_the_process_that_counted_them_has_said(
    tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    counted(commands, "nvidia-smi", "printf 'GPU %d:\\n' 0 1 2 3 4 5")
    pods = {"pods": {"min": 1, "max": 9}}
    folder = create(tmp_path, resources={"gpus_per_pod": 2}, population=pods)
    run = Run(folder)
    assert run.status().slots_wanted is None
    assert run.target().wanted == 3
    folder.intents.publish(Intent(0, "t0", "slots", 3, target=3))
    assert run.status().slots_wanted == 3
    assert "3 wanted: as many fit on this machine" in " ".join(run.why())
    folder.requests.publish(Scale(2))
    assert run.status().slots_wanted == 2


def test_who_looks_imports_no_coordinator() -> None:
    modules = ("explain", "leaderboard", "pod_log", "status", "tables")
    imports = "; ".join(f"import hpcpod.run.{name}" for name in modules)
    code = f"{imports}; import sys; print('hpcpod.orchestrator.tick' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

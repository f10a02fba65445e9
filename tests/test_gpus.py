"""GPUs of this machine: counted, and each given to one slot."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hpcpod._gpus import visible_gpus
from hpcpod.cli.parser import main
from hpcpod.errors import LaunchError
from hpcpod.launchers.local import LocalLauncher
from hpcpod.orchestrator.loop import drive_here
from hpcpod.orchestrator.plan import Submit, plan
from hpcpod.orchestrator.snapshot import observe
from hpcpod.records.records import Intent
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from tests.launchers.runs import run_config
from tests.launchers.slurm.test_scripts import fake
from tests.support.small_runs import create, mapping

VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("", []),
        ("0", ["0"]),
        ("4, 5,7", ["4", "5", "7"]),
        ("GPU-8932f937,MIG-1a2b", ["GPU-8932f937", "MIG-1a2b"]),
        ("1,-1,2", ["1"]),  # as CUDA reads it
        ("NoDevFiles", []),  # what Slurm says of a job without GPUs
    ],
)
def test_gpus_are_those_that_the_environment_names(
    told: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, told)
    assert visible_gpus() == expected


def test_gpus_are_those_that_the_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus() == []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fake(
        tmp_path, "nvidia-smi",
        "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 1g.18gb Device 0: (UUID: MIG-1)\n"
        "GPU 1: NVIDIA H200 (UUID: GPU-2)'",
    )  # fmt: skip
    assert visible_gpus() == ["0", "1"]


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cores: machines of tests have fewer than these GPUs' slots, which cores would limit."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))


@pytest.mark.usefixtures("many_cores")
def test_there_are_no_more_places_than_gpus_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1,2,3,4")

    def places(gpus: int, slots: int | None = None) -> int:
        return LocalLauncher(Path("/runs"), run_config(gpus=gpus, slots=slots)).places

    assert [places(gpus) for gpus in (0, 1, 2, 5)] == [8, 5, 2, 1]
    assert [places(2, slots) for slots in (1, 7)] == [1, 2]


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    """Of a run whose pods need two of the five GPUs that this machine seems to have."""
    monkeypatch.setenv(VISIBLE, "7,3,GPU-a,GPU-b,GPU-c")
    folder = create(tmp_path, "ppo", "dqn", resources={"gpus_per_pod": 2})
    for number in range(2):
        folder.intents.publish(Intent(number, f"t{number}", "slots"))
    starting = LocalLauncher(folder.path, folder.resolved.config)
    yield starting
    starting.close()


def devices() -> dict[str, tuple[psutil.Process, str]]:
    """By name, this process's slots and the GPUs that each may use."""
    found = {}
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE:  # another test's
            continue
        # The system knows a process before its words: it has started, and is not there yet.
        while not (words := child.cmdline()) and child.is_running():
            time.sleep(0.01)
        if "hpcpod.slot" in words:
            found[words[words.index("--slot") + 1]] = child, child.environ()[VISIBLE]
    return found


def test_every_slot_has_gpus_of_its_own_and_a_dead_one_s_are_given_to_the_next(
    launcher: LocalLauncher,
) -> None:
    launcher.submit(Intent(0, "t0", "slots", 2))
    given = {slot: gpus for slot, (_, gpus) in devices().items()}
    assert given == {"local-0-0": "7,3", "local-0-1": "GPU-a,GPU-b"}
    process, _ = devices()["local-0-0"]
    process.kill()
    process.wait(600)
    assert [job.slot for job in launcher.observe().jobs] == ["local-0-1"]
    launcher.submit(Intent(1, "t1", "slots", 1))
    assert devices()["local-1-0"][1] == "7,3"


@pytest.mark.usefixtures("many_cores")
def test_a_slot_that_is_to_leave_has_its_gpus_until_it_is_gone(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    (config,) = tmp_path.glob("**/config.json")
    folder = RunFolder.open(config.parent)
    launcher.submit(Intent(0, "t0", "slots", 2))
    process, _ = devices()["local-0-0"]
    process.suspend()
    folder.slots.retire("local-0-0", "now", "a person asked")

    def asked_for() -> int:
        actions = plan(observe(folder, launcher), lambda: "new")
        return sum(a.intent.count for a in actions if isinstance(a, Submit))

    assert asked_for() == 0  # it would have no GPU, and so see all of them
    process.kill()
    process.wait(600)
    assert asked_for() == 1


@pytest.mark.usefixtures("many_cores")
def test_slots_share_a_gpu_once_each_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "4,GPU-b")
    folder = create(
        tmp_path, resources={"gpus_per_pod": 1, "pods_per_gpu": 2}, population={"pods": {"max": 3}}
    )
    folder.intents.publish(Intent(0, "t0", "slots"))
    starting = LocalLauncher(folder.path, folder.resolved.config)
    try:
        assert starting.places == 3
        starting.submit(Intent(0, "t0", "slots", 3))
        given = {slot: gpus for slot, (_, gpus) in devices().items()}
        assert given == {"local-0-0": "4", "local-0-1": "GPU-b", "local-0-2": "4"}
    finally:
        starting.close()


def test_too_few_gpus_are_one_sentence_and_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VISIBLE, "0")
    (tmp_path / "small.yaml").write_text(str(mapping(resources={"gpus_per_pod": 2})))
    assert main(["launch", str(tmp_path / "small.yaml"), "--runs", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "resources.gpus_per_pod is 2, but this machine has 1 to offer" in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_a_run_resumed_where_there_is_no_gpu_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "0")
    folder: RunFolder = create(tmp_path, resources={"gpus_per_pod": 1})
    monkeypatch.setenv(VISIBLE, "")
    with pytest.raises(LaunchError, match="with 0 they train on the CPU"):
        drive_here(folder, lambda: False)
    assert Run(folder).board().phase == "running"

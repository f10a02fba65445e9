"""``hpcpod doctor`` on one machine: no Slurm, filesystems that lack something, bad input."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.doctor.probes import files
from hpcpod.storage.disk import Disk
from tests.doctor.diagnoses import doctor, filesystem, without_slurm
from tests.doctor.refusing import NUMBERS
from tests.support.command_line import refusal
from tests.support.small_disks import filled
from tests.test_surface import loaded_by

can_refuse = pytest.mark.skipif(
    platform.machine() not in NUMBERS, reason="the numbers of system calls are not known here"
)


@pytest.fixture
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return without_slurm(tmp_path_factory.mktemp("path") / "bin")


def test_without_slurm_the_local_launcher_is_used(home: Path, env: dict[str, str]) -> None:
    said = doctor(home, env=env)
    assert said.code == 0
    assert said.groups() == ["run folder", "scheduler", "this machine"]
    row = said.row("scheduler", "Slurm")
    assert (row.verdict, row.found) == ("ok", "Slurm's commands are not here")
    assert "cluster.launcher: local" in row.then
    assert said.row("run folder", "publishing").found.startswith("hard links work")
    assert said.row("run folder", "locks (flock)").found == "a lock is seen between processes"
    assert said.row("this machine", "torch").verdict == "ok"
    assert sys.executable in said.row("this machine", "Python").found


def test_a_run_for_slurm_has_a_problem_where_there_is_none(home: Path, env: dict[str, str]) -> None:
    (home / "slurm.yaml").write_text("name: x\nenv: {id: X}\ncluster: {launcher: slurm}\n")
    said = doctor(home, "slurm.yaml", env=env)
    assert said.code == 1
    assert said.problems() == [("scheduler", "Slurm")]
    assert "cluster.launcher is slurm" in said.row("scheduler", "Slurm").then


def test_commands_that_find_no_cluster_say_why(home: Path, env: dict[str, str]) -> None:
    for name in ("sbatch", "scontrol"):
        command = Path(env["PATH"], name)
        command.write_text("#!/bin/sh\necho 'scontrol: error: no cluster today' >&2\nexit 1\n")
        command.chmod(0o755)
    row = doctor(home, env=env).row("scheduler", "Slurm")
    assert (row.verdict, row.found) == ("note", "no answer: no cluster today")
    row = doctor(home, "--cluster", "local", env=env).row("scheduler", "Slurm")
    assert (row.verdict, row.found) == ("ok", "it is not asked (--cluster local)")


@pytest.mark.slurm
def test_slurm_s_own_commands_without_a_cluster_are_no_slurm(home: Path) -> None:
    if Path("/etc/slurm/slurm.conf").exists():
        pytest.skip("this machine is a node of a cluster")
    nowhere = {name: value for name, value in os.environ.items() if name != "SLURM_CONF"}
    row = doctor(home, env=nowhere).row("scheduler", "Slurm")
    assert row.verdict == "note"
    assert row.found.startswith("no Slurm here: ")
    launch = [sys.executable, "-m", "hpcpod", "launch", "good.yaml", "--cluster", "slurm"]
    done = subprocess.run(
        [*launch, "--no-probe"], cwd=home, env=nowhere, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hpcpod: squeue failed: no Slurm here: its commands are, but")
    assert not (home / "runs" / "small").exists()


@can_refuse
def test_without_hard_links_names_are_published_by_folders(tmp_path: Path) -> None:
    said = filesystem(tmp_path, "link=EPERM", "linkat=EPERM")
    row = said.row("run folder", "publishing")
    assert row.verdict == "note"
    assert row.found.startswith("no hard links, but")
    assert "renaming a folder" in row.then
    assert said.code == 0


@can_refuse
def test_a_filesystem_without_locks_is_a_note(tmp_path: Path) -> None:
    said = filesystem(tmp_path, "flock=ENOSYS")
    row = said.row("run folder", "locks (flock)")
    assert row.verdict == "note"
    assert row.found.startswith("there are none (Function not implemented")
    assert said.row("run folder", "locks (fcntl)").verdict == "ok"
    assert said.code == 0


def test_a_full_disk_is_a_problem(small: Path) -> None:
    with filled(small):
        said = filesystem(small / "runs")
    assert said.problems() == [("run folder", "writing"), ("run folder", "space")]
    assert "its filesystem is full" in said.row("run folder", "writing").found
    assert said.row("run folder", "space").found.startswith("room for 0 B")


def test_a_small_disk_is_told_by_its_type_and_room(small: Path) -> None:
    said = filesystem(small / "far" / "runs")
    assert said.row("run folder", "filesystem").found == f"tmpfs at {small}"
    space = said.row("run folder", "space")
    assert space.verdict == "problem"
    assert "kB and 9" in space.found  # of its thousand files
    assert list(small.iterdir()) == []


def test_a_place_where_nothing_can_be_written_is_a_problem() -> None:
    said = filesystem(Path("/proc/runs"))
    row = said.row("run folder", "writing")
    assert row.verdict == "problem"
    assert "/proc" in row.found
    assert "--runs" in row.then


def test_a_file_or_a_link_to_nowhere_in_the_way_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("/nowhere/scratch")
    for name in ("file", "link"):
        for runs in (tmp_path / name, tmp_path / name / "runs"):
            row = filesystem(runs).row("run folder", "writing")
            assert row.verdict == "problem"
            assert str(tmp_path / name) in row.found


def test_without_torch_no_slot_can_train(home: Path, env: dict[str, str]) -> None:
    (home / "broken").mkdir()
    (home / "broken" / "torch.py").write_text("raise ImportError('libcuda.so.1: no such file')\n")
    said = doctor(home, env={**env, "PYTHONPATH": _first(home / "broken")})
    assert said.problems() == [("this machine", "torch")]
    assert "ImportError: libcuda.so.1: no such file" in said.row("this machine", "torch").found


def test_gpus_that_are_not_there_are_a_problem(home: Path, env: dict[str, str]) -> None:
    said = doctor(home, "--set", "resources.gpus_per_pod=99", env=env)
    assert said.problems() == [("this machine", "GPUs")]
    assert said.row("this machine", "GPUs").found.startswith("99 asked for; torch sees ")


def _first(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_the_table_has_every_row_and_a_last_line(home: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "doctor"],
        cwd=home, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0] == f"run folder: {home / 'runs'}"
    assert lines[-1] == "nothing hinders a run"
    assert max(map(len, lines)) <= 100
    rows = [line.split()[:2] for line in lines if line.startswith("  ") and line[2] != " "]
    assert ["ok", "publishing"] in rows
    assert ["ok", "torch"] in rows
    assert "hpcpod: importing torch ..." in done.stderr.splitlines()


def test_bad_input_is_one_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no such file" in refusal(capsys, "doctor", "god.yaml")
    assert "did you mean 'partition'?" in refusal(capsys, "doctor", "--set", "cluster.partitio=x")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--patience", "soon"])
    assert ended.value.code == 2


def test_what_a_killed_doctor_left_is_swept_an_hour_later(tmp_path: Path) -> None:
    old, new = tmp_path / ".tmp-doctor-old", tmp_path / ".tmp-doctor-new"
    for folder in (old, new):
        files.fill(Disk(), folder)
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    with files.workplace(tmp_path) as home:
        assert home.is_dir()
    assert list(tmp_path.iterdir()) == [new]


def test_the_runs_filesystem_is_asked_by_another_process(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod.doctor.probes.files", str(home / "a" / "b")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["files"]["folder"] == str(home)
    assert found["files"]["scheme"] == "link"
    assert abs(found["files"]["ahead"]) < 1.0


def test_no_torch_is_loaded_by_the_doctor_itself(tmp_path: Path) -> None:
    for module in ("examine", "probes.node", "probes.rank", "probes.machine"):
        assert loaded_by(f"import hpcpod.doctor.{module}", tmp_path) == set()

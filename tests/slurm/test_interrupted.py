"""Runs on a real Slurm that are interrupted, by a preemption or by people, and go on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(slurm_cluster, tmp_path, probe=False)


@pytest.mark.parametrize("grace", [0, 5])
def test_a_preempted_slot_comes_back_and_resumes_its_round(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path, grace: int
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=grace)), tmp_path, probe=False)
    config = shell.paced("preempted", pods=1, steps=4_000, rounds=1)
    shell.hpcpod("launch", str(config), "--set", "cluster.slots=1")
    run = shell.run("preempted")
    shell.cluster.wait(
        "a checkpoint inside the round",
        lambda: run.folder.checkpoints.latest("p0001", 1) is not None, 120,
    )  # fmt: skip
    before = run.folder.checkpoints.latest("p0001", 1)
    assert before is not None
    slot = next(iter(run.status().slots))
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 1")  # fmt: skip
    shell.finished("preempted", 300)
    assert "Restarts=1" in shell.cluster.run("scontrol", "show", "job", slot)
    went_on = re.findall(r"p0001-00001-1 goes on at (\d+) env steps", shell.logs("preempted"))
    assert went_on, shell.logs("preempted")
    assert int(went_on[0]) >= before.env_steps
    board = run.board()
    assert board.reports == 2  # the round, and the finalist's score
    assert board.env_steps == board.pods["p0001"].trained_steps


def cancel_all(shell: Shell) -> None:
    """More than once: a cancel that meets a slot on its way to a requeue comes too early, and a
    coordinator may have submitted others before its own end."""
    end = time.monotonic() + 90
    while (left := shell.jobs()) and time.monotonic() < end:
        shell.cluster.run("scancel", *left, check=False)
        time.sleep(2)
    assert left == []


def test_ticks_by_hand_do_where_there_is_no_coordinator(shell: Shell) -> None:
    config = shell.paced("by-hand", steps=3_000, rounds=2)
    shell.hpcpod("launch", str(config), "--set", "cluster.coordinator=false")
    run = shell.run("by-hand")
    assert len(shell.jobs()) == 2
    shell.cluster.wait(
        "checkpoints",
        lambda: all(run.folder.checkpoints.latest(p, 1) for p in run.board().pods),
        120,
    )
    cancel_all(shell)
    assert run.board().phase == "running"
    shell.hpcpod("tick", "by-hand")
    assert len(shell.jobs()) == 2

    def ended() -> bool:
        shell.hpcpod("tick", "by-hand")
        return run.board().phase == "finished"

    shell.cluster.wait("its end by ticks alone", ended, 180)
    assert shell.finished("by-hand")["stop_reason"] == "rounds"


def test_a_drained_run_pauses_and_resumes_also_where_its_name_and_folder_have_spaces(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    home = tmp_path / "home of a person"
    home.mkdir()
    shell = Shell(slurm_cluster, home, probe=False)
    shell.hpcpod("launch", str(shell.paced("two words", steps=1_000, rounds=4)))
    run = shell.run("two words")
    shell.cluster.wait("a report", lambda: run.board().reports > 0, 120)
    shell.hpcpod("stop", "two words", "--drain")
    shell.cluster.drained(90)
    assert shell.status("two words")["state"] == "paused"
    shell.hpcpod("resume", "two words")
    assert shell.finished("two words")["stop_reason"] == "rounds"
    assert (run.path / "best.h5").exists()
    assert "slot" in shell.hpcpod("logs", "two words", "slot-")


def test_a_run_whose_jobs_are_all_cancelled_is_interrupted_resumes_and_is_stopped(
    shell: Shell,
) -> None:
    shell.hpcpod("launch", str(shell.paced("cancelled", steps=1_000, rounds=1000)))
    run = shell.run("cancelled")
    shell.cluster.wait("a report", lambda: run.board().reports > 0, 120)
    cancel_all(shell)
    shell.cluster.wait(
        "an interrupted run", lambda: shell.seen("cancelled").state == "interrupted", 90
    )
    assert shell.status("cancelled")["state"] == "interrupted"
    assert "go on with: hpcpod resume" in shell.hpcpod("watch", "cancelled", code=75)
    assert "submitted" in shell.hpcpod("resume", "cancelled")
    shell.cluster.wait("a slot at work", lambda: bool(shell.seen("cancelled").slots), 60)
    assert "nothing: its jobs" in shell.hpcpod("resume", "cancelled")
    # It ends the jobs, and the best policy stays.
    shell.hpcpod("stop", "cancelled", "--now")
    shell.cluster.wait("its jobs to end", lambda: shell.jobs() == [], 60)
    status = shell.status("cancelled")
    assert (status["state"], status["stop_reason"]) == ("finished", "user")
    assert Path(status["best"]["checkpoint"]).exists()

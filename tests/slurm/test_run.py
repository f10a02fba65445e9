"""Whole runs on a real Slurm: launched, preempted, robbed of their coordinator, ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.runs import CONFIGS, Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(slurm_cluster, tmp_path)


def coordinators(shell: Shell) -> list[int]:
    """Process ids of the cluster's running coordinators."""
    found = []
    for pid in shell.cluster.processes():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            b"hpcpod.orchestrator" in command
            and b"python" in Path(command[0].decode()).name.encode()
        ):
            found.append(pid)
    return found


def test_the_cartpole_tournament_launched_by_the_cli_reaches_its_target(shell: Shell) -> None:
    said = shell.hpcpod(
        "launch", str(CONFIGS / "cartpole.yaml"), "--cluster", "slurm",
        "--set", "cluster.tick_seconds=2", "--set", "cluster.slots=4",
        "--set", "stop.target=150",  # its own is tests/test_demo.py's to reach
    )  # fmt: skip
    assert re.search(r"coordinator as job \d+ and \d+ slots? as job \d+\nslots: \d at once, ", said)
    assert "hpcpod watch" in said
    status = shell.finished("cartpole", 550)
    assert status["state"] == "finished"
    assert status["stop_reason"] == "target"
    assert status["best"]["fresh"]
    assert status["best"]["low"] >= 150
    assert (shell.home / "runs" / "cartpole" / "best.h5").exists()
    assert "lineage of" in shell.hpcpod("leaderboard", "cartpole")


@pytest.mark.parametrize("grace", [0, 5])
def test_a_preempted_slot_comes_back_and_resumes_its_round(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path, grace: int
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=grace)), tmp_path)
    config = shell.small("preempted", pods=1, steps=60_000, rounds=1)
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


def test_a_run_goes_on_and_ends_when_its_coordinator_is_killed(shell: Shell) -> None:
    command = 'on_finish=echo "$HPCPOD_NAME $HPCPOD_REASON $SLURM_JOB_ID" >> told'
    shell.hpcpod("launch", str(shell.small("orphaned", rounds=6)), "--set", command)
    shell.cluster.wait("the coordinator", lambda: bool(coordinators(shell)), 60)
    for pid in coordinators(shell):
        os.kill(pid, signal.SIGKILL)
    reports = shell.run("orphaned").board().reports
    told = shell.run("orphaned").path / "told"
    # By a slot, once the lease of the coordinator is over, 90 s later.
    shell.cluster.wait("the command of on_finish", told.exists, 300)
    assert shell.finished("orphaned")["stop_reason"] == "rounds"
    assert shell.run("orphaned").board().reports > reports
    assert re.fullmatch(r"orphaned rounds \d+\n", told.read_text())  # by a job, and once


def cancel_all(shell: Shell) -> None:
    """More than once: a cancel that meets a slot on its way to a requeue comes too early, and a
    coordinator may have submitted others before its own end."""
    end = time.monotonic() + 90
    while (left := shell.jobs()) and time.monotonic() < end:
        shell.cluster.run("scancel", *left, check=False)
        time.sleep(2)
    assert left == []


def test_ticks_by_hand_do_where_there_is_no_coordinator(shell: Shell) -> None:
    config = shell.small("by-hand", steps=40_000, rounds=2)
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


def test_stop_ends_the_jobs_and_keeps_the_best_policy(shell: Shell) -> None:
    shell.hpcpod("launch", str(shell.small("stopped", rounds=1000)))
    run = shell.run("stopped")
    shell.cluster.wait("a report", lambda: run.board().reports > 0, 120)
    shell.hpcpod("stop", "stopped", "--now")
    shell.cluster.drained(60)
    status = shell.status("stopped")
    assert (status["state"], status["stop_reason"]) == ("finished", "user")
    assert Path(status["best"]["checkpoint"]).exists()
    assert shell.jobs() == []


def test_a_drained_run_pauses_and_resumes(shell: Shell) -> None:
    shell.hpcpod("launch", str(shell.small("drained", rounds=8)))
    run = shell.run("drained")
    shell.cluster.wait("a report", lambda: run.board().reports > 0, 120)
    shell.hpcpod("stop", "drained", "--drain")
    shell.cluster.drained(90)
    assert shell.status("drained")["state"] == "paused"
    shell.hpcpod("resume", "drained")
    assert shell.finished("drained")["stop_reason"] == "rounds"


def test_a_run_whose_jobs_are_all_cancelled_is_interrupted_and_resumes(shell: Shell) -> None:
    shell.hpcpod("launch", str(shell.small("cancelled", rounds=1000)))
    run = shell.run("cancelled")
    shell.cluster.wait("a report", lambda: run.board().reports > 0, 120)
    cancel_all(shell)
    shell.cluster.wait(
        "an interrupted run", lambda: shell.status("cancelled")["state"] == "interrupted", 90
    )
    assert "go on with: hpcpod resume" in shell.hpcpod("watch", "cancelled", code=75)
    assert "submitted" in shell.hpcpod("resume", "cancelled")
    shell.cluster.wait("a slot at work", lambda: shell.status("cancelled")["slots"] != {}, 60)
    assert "nothing: its jobs" in shell.hpcpod("resume", "cancelled")
    shell.hpcpod("stop", "cancelled", "--now")
    shell.cluster.drained(60)


def test_rendered_scripts_submitted_by_hand_do_the_same_and_count_once(shell: Shell) -> None:
    said = shell.hpcpod("render", str(shell.small("rendered")))
    scripts = re.findall(r"sbatch (\S+\.sbatch)", said)
    assert len(scripts) == 2
    assert shell.jobs() == []
    for script in [*scripts, *scripts]:
        shell.cluster.run("sbatch", script)
    status = shell.finished("rendered")
    assert status["stop_reason"] == "rounds"
    claimed = {path.read_text() for path in (shell.home / "runs/rendered/claims").rglob("p*")}
    arrays = {match for text in claimed for match in re.findall(r'"slot": ?"(\d+)_', text)}
    assert len(arrays) == 1
    # The second array has seen it itself, or the coordinator was faster.
    said = shell.logs("rendered") + shell.logs("rendered", "coordinator")
    assert "was submitted as job" in said or "its intent was submitted twice" in said


def test_dry_run_prints_what_launch_submits_and_submits_nothing(shell: Shell) -> None:
    config = str(shell.small("dry"))
    said = shell.hpcpod("launch", config, "--dry-run")
    assert said.count("#!/bin/bash") == 2
    assert "-m hpcpod.slot" in said
    assert "-m hpcpod.orchestrator" in said
    assert shell.jobs() == []
    assert not (shell.home / "runs").exists()


def test_a_refused_submission_says_sbatch_s_words_and_leaves_nothing(shell: Shell) -> None:
    config = str(shell.small("refused"))
    said = shell.hpcpod("launch", config, "--set", "cluster.partition=nowhere", code=2)
    assert "invalid partition" in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
    assert not (shell.home / "runs" / "refused").exists()
    assert shell.jobs() == []


def test_two_coordinators_at_once_never_double_the_population(shell: Shell) -> None:
    shell.hpcpod("render", str(shell.small("doubled", pods=3, rounds=4)))
    command = [sys.executable, "-m", "hpcpod.orchestrator", "runs/doubled"]
    ticks = [
        [sys.executable, "-m", "hpcpod", "tick", "doubled"],
    ] * 4
    processes = [
        subprocess.Popen(
            words, cwd=shell.home, env=shell.cluster.env(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for words in [command, command, *ticks]
    ]  # fmt: skip
    try:
        most = 0
        run = shell.run("doubled")
        end = time.monotonic() + 240
        while run.board().phase != "finished":
            assert time.monotonic() < end, shell.logs("doubled")
            most = max(most, len(run.status().slots))
            time.sleep(0.2)
        assert most <= 3
        assert run.board().stop_reason == "rounds"
    finally:
        for process in processes:
            process.terminate()
            process.wait(60)
    shell.cluster.drained(60)


def test_names_and_folders_may_have_spaces(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    home = tmp_path / "home of a person"
    home.mkdir()
    shell = Shell(slurm_cluster, home)
    shell.hpcpod("launch", str(shell.small("two words", rounds=1)))
    assert shell.finished("two words")["stop_reason"] == "rounds"
    assert (shell.run("two words").path / "best.h5").exists()
    assert "slot" in shell.hpcpod("logs", "two words", "slot-")


def test_status_says_why_slots_wait(shell: Shell) -> None:
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 300")  # fmt: skip
    shell.hpcpod("launch", str(shell.small("waiting")))
    known = {"Resources", "Priority"}
    shell.cluster.wait("reasons", lambda: set(shell.status("waiting")["queue"]) <= known, 60)
    status = shell.status("waiting")
    assert status["state"] == "waiting"
    assert sum(status["queue"].values()) == 2
    assert "2 slots wait: " in shell.hpcpod("status", "waiting")
    shell.hpcpod("stop", "waiting", "--now")
    shell.cluster.drained(60)

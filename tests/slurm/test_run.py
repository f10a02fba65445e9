"""Whole runs on a real Slurm: launched, robbed of their coordinator, submitted twice, refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.runs import CONFIGS, Shell
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(slurm_cluster, tmp_path, probe=False)


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
    shell.probe = True
    said = shell.hpcpod(
        "launch", str(CONFIGS / "cartpole.yaml"), "--cluster", "slurm",
        "--set", "cluster.tick_seconds=2", "--set", "cluster.slots=4",
        "--set", "stop.target=150",  # its own, by slow learners, is in tests/test_demo.py
        "--set", "agents.ppo.learning_rate={log_uniform: [3.0e-4, 1.0e-3]}",
        "--set", "agents.ppo.minibatch_size=64",
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


def test_a_run_goes_on_and_ends_when_its_coordinator_is_killed(shell: Shell) -> None:
    command = 'on_finish=echo "$HPCPOD_NAME $HPCPOD_REASON $SLURM_JOB_ID" >> told'
    shell.hpcpod("launch", str(shell.small("orphaned", rounds=6)), "--set", command)
    end = time.monotonic() + 60
    while not (found := coordinators(shell)):  # look often: soon it has a successor in the queue
        assert time.monotonic() < end
        time.sleep(0.05)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    reports = shell.run("orphaned").board().reports
    told = shell.run("orphaned").path / "told"
    # By a slot, once the lease of the coordinator is over, 90 s later.
    shell.cluster.wait("the command of on_finish", told.exists, 300)
    assert shell.finished("orphaned")["stop_reason"] == "rounds"
    assert shell.run("orphaned").board().reports > reports
    assert re.fullmatch(r"orphaned rounds \d+\n", told.read_text())  # by a job, and once


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
            process.wait(600)
    shell.cluster.drained(60)


def test_status_says_why_slots_wait(shell: Shell) -> None:
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 300")  # fmt: skip
    shell.hpcpod("launch", str(shell.small("waiting")))
    known = {"Resources", "Priority"}
    shell.cluster.wait("reasons", lambda: set(shell.seen("waiting").queue) <= known, 60)
    status = shell.status("waiting")
    assert status["state"] == "waiting"
    assert sum(status["queue"].values()) == 2
    assert "2 slots wait: " in shell.hpcpod("status", "waiting")
    shell.hpcpod("stop", "waiting", "--now")
    shell.cluster.drained(60)

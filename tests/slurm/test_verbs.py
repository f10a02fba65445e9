"""Every verb on a real Slurm while nobody coordinates the run, and where there is no Slurm."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from hpcpod.storage.requests import Drain
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(slurm_cluster, tmp_path, probe=False)


def coordinators(shell: Shell) -> list[str]:
    """The coordinators in the queue, with their state: ``7 PENDING``."""
    lines = shell.cluster.run("squeue", "-h", "-r", "-o", "%i %T %j").splitlines()
    return [line.rpartition(" ")[0] for line in lines if "-coordinator-" in line]


def lose_the_coordinators(shell: Shell) -> None:
    """Cancel the ones that wait, kill -9 the one that runs, until none is left: one that lives
    submits another meanwhile."""
    shell.cluster.wait("no coordinator", lambda: not coordinators(shell) or _lose(shell), 60)


def _lose(shell: Shell) -> bool:
    waiting = [line.split()[0] for line in coordinators(shell) if "PENDING" in line]
    if waiting:
        shell.cluster.run("scancel", *waiting, check=False)  # one may run by now
    for pid in shell.cluster.processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"hpcpod.orchestrator" in words and b"python" in Path(words[0].decode()).name.encode():
            os.kill(pid, signal.SIGKILL)
    return False


def launched(shell: Shell, name: str, *, pods: int = 3, slots: int = 1) -> None:
    config = shell.endless(name, pods=pods)
    shell.hpcpod("launch", str(config), "--set", f"cluster.slots={slots}")
    shell.cluster.wait("a slot in a round", lambda: "env_steps" in first_slot(shell, name), 90)


def first_slot(shell: Shell, name: str) -> dict[str, object]:
    return dict(next(iter(shell.run(name).status().slots.values()), {}))


def at_work(shell: Shell, name: str) -> int:
    return len(shell.run(name).status().slots)


def test_every_verb_works_without_a_coordinator(shell: Shell) -> None:
    launched(shell, "alone")
    lose_the_coordinators(shell)
    status = shell.status("alone")
    assert (status["state"], status["coordinators"], status["slots_running"]) == ("running", 0, 1)
    assert status["forecast"]["limit"] == "minutes"
    said = shell.hpcpod("status", "alone")
    assert "slots: 1 of 1 at work, no coordinator" in said
    assert re.search(r"ends at the latest in about \d+ min \(stop\.minutes\)", said)
    said = shell.hpcpod("why", "alone")
    assert "no coordinator is in the queue" in said
    assert "hpcpod tick" in said
    said = shell.hpcpod("why", "p0001")
    assert re.search(r"round 1 is being trained by slot \d+_0 on \S+ since \d\d:\d\d", said)
    assert "round 1 waits for a slot" in shell.hpcpod("why", "alone", "p0003")
    assert "p0001-00001-1: training begins" in shell.hpcpod("logs", "alone", "p0001")
    shell.hpcpod("leaderboard", "alone")
    assert "has no policy yet" in shell.hpcpod("export", "alone", code=2)
    assert coordinators(shell) == []  # who looks submits nothing

    said = shell.hpcpod("scale", "alone", "3")
    assert "slots at once were 1, will be 3 (a person asked" in said
    shell.cluster.wait("three slots", lambda: at_work(shell, "alone") == 3, 90)
    lose_the_coordinators(shell)
    shell.hpcpod("scale", "alone", "1")
    shell.cluster.wait("one slot", lambda: at_work(shell, "alone") == 1, 90)

    lose_the_coordinators(shell)
    assert "go on with: hpcpod resume" in shell.hpcpod("pause", "alone")
    shell.cluster.wait("nobody at work", lambda: at_work(shell, "alone") == 0, 90)
    shell.cluster.drained(60)
    resumes = shell.run("alone").folder.checkpoints.latest("p0001", 1)
    assert resumes is not None and resumes.env_steps > 0
    assert shell.status("alone")["state"] == "paused"
    assert "the run is paused, as a person asked" in shell.hpcpod("why", "alone")
    assert "submitted" in shell.hpcpod("resume", "alone")
    shell.cluster.wait("a slot again", lambda: "env_steps" in first_slot(shell, "alone"), 90)
    assert "goes on at" in shell.logs("alone")

    lose_the_coordinators(shell)
    shell.hpcpod("stop", "alone", "--now")
    shell.cluster.drained(60)
    assert shell.status("alone")["state"] == "finished"


def test_a_preempted_slot_is_counted_and_followed(shell: Shell) -> None:
    launched(shell, "counted", pods=1)
    whole = ("-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 300")
    shell.cluster.run("sbatch", *whole)
    shell.cluster.wait("it to wait", lambda: any("_0" in job for job in shell.jobs("-t", "PD")), 60)
    assert shell.status("counted")["slots_pending"] == 1
    said = shell.hpcpod("why", "counted", "p0001")
    assert re.search(r"was taken by slot \d+_0 on \S+, which was requeued", said), said
    shell.cluster.run("scancel", "--partition=high")
    shell.cluster.wait("its return", lambda: shell.run("counted").status().requeues == 1, 120)
    shell.cluster.wait("it at work", lambda: "env_steps" in first_slot(shell, "counted"), 60)
    status = shell.status("counted")
    assert [slot["restarts"] for slot in status["slots"].values()] == [1]
    assert status["core_hours"] > 0
    said = shell.hpcpod("status", "counted")
    assert "requeued once" in said
    said = shell.hpcpod("logs", "counted", "p0001", "-n", "1000")
    assert said.count("p0001-00001-1: training begins") == 2
    assert "p0001-00001-1 goes on at" in said
    shell.hpcpod("stop", "counted", "--now")
    shell.cluster.drained(60)


def test_what_the_scheduler_says_is_put_in_words(shell: Shell) -> None:
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 300")  # fmt: skip
    config = shell.endless("pending")
    shell.hpcpod("launch", str(config))
    shell.cluster.wait(
        "reasons", lambda: set(shell.seen("pending").queue) <= {"Resources", "Priority"}, 60
    )
    said = shell.hpcpod("why", "pending", "p0001")
    assert "round 1 waits for a slot" in said
    assert re.search(r"wait.*: (Resources|Priority): \w+", said), said
    why = json.loads(shell.hpcpod("why", "pending", "--json"))
    assert why["run"] == "pending"
    assert any("0 slots at work, 2 wanted" in sentence for sentence in why["why"])
    shell.hpcpod("stop", "pending", "--now")
    shell.cluster.drained(60)


def test_what_was_refused_is_submitted_by_the_next_resume(shell: Shell) -> None:
    shell.hpcpod("launch", str(shell.endless("late")), "--set", "cluster.coordinator=false")
    shell.cluster.drained(60)
    assert "starting" not in shell.hpcpod("status", "late")
    shell.cluster.run("scontrol", "update", "PartitionName=low", "State=DRAIN")
    try:
        assert "sbatch refused" in shell.hpcpod("resume", "late", code=2)
    finally:
        shell.cluster.run("scontrol", "update", "PartitionName=low", "State=UP")
    said = shell.hpcpod("resume", "late")
    assert re.search(r"late: submitted \d+$", said.strip()), said
    shell.hpcpod("stop", "late", "--now")
    shell.cluster.drained(60)


def test_a_machine_without_slurm_can_look_and_ask(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(shell, "remote")
    lose_the_coordinators(shell)
    with monkeypatch.context() as away:
        away.setattr(SlurmCluster, "env", lambda self: {**os.environ, "PATH": "/nonexistent"})
        said = shell.hpcpod("status", "remote")
        assert "remote: running" in said
        assert "what waits in the queue can't be told here: there is no squeue" in said
        assert "is being trained by slot" in shell.hpcpod("why", "remote", "p0001")
        assert "there is no squeue on this machine" in shell.hpcpod("why", "remote")
        for looking in (["leaderboard"], ["logs"], ["scale"]):
            shell.hpcpod(*looking, "remote")
        said = shell.hpcpod("scale", "remote", "3")
        assert "will be 3" in said
        assert "asked for, but not done from here" in said
        assert "there is no squeue" in shell.hpcpod("tick", "remote", code=2)
        assert "any more" not in shell.hpcpod("resume", "remote", code=2)
        shell.hpcpod("stop", "--drain", "remote")
        said = shell.hpcpod("resume", "remote", code=2)
        assert "remote is not paused any more" in said
        assert "there is no squeue" in said
        assert shell.run("remote").folder.requests.read(Drain) is None
    shell.hpcpod("tick", "remote")
    shell.cluster.wait("three slots", lambda: at_work(shell, "remote") == 3, 90)
    with monkeypatch.context() as away:
        away.setattr(SlurmCluster, "env", lambda self: {**os.environ, "PATH": "/nonexistent"})
        said = shell.hpcpod("stop", "remote", "--now")
        assert "remote: finished (user)" in said
        assert "its slots end by themselves" in said
    shell.cluster.wait("all slots gone", lambda: not shell.jobs(), 90)

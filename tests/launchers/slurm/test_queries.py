"""A launcher's view of a real Slurm: everything but the jobs is a hint."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpod.launchers.base import IdleNode
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.launchers.slurm.scontrol import read_settings, requeue_seconds
from hpcpod.records.records import Intent
from tests.launchers.runs import Lives, run_config, stand_in
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = pytest.mark.slurm


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.env()[name])
    # -t idle takes "idle*" too: a node that was drained does not answer for a moment.
    states = ("sinfo", "-h", "-N", "-p", "low", "-o", "%t")
    slurm_cluster.wait("idle nodes", lambda: set(slurm_cluster.run(*states).split()) == {"idle"})
    yield slurm_cluster
    slurm_cluster.drained()


@pytest.fixture
def folder(cluster: SlurmCluster, request: pytest.FixtureRequest) -> Path:
    path = cluster.folder / "runs" / re.sub(r"\W+", "-", request.node.name)
    path.mkdir(parents=True)
    return path


def start(cluster: SlurmCluster, launcher: SlurmLauncher, count: int) -> str:
    """Submit slots and wait until each lives."""
    array = launcher.submit(Intent(0, "5eed", "slots", count))
    lives = Lives(launcher.folder)
    cluster.wait("slots", lambda: all(lives.alive(n, life=0) for n in range(count)))
    return array


def test_a_slot_that_runs_is_seen_with_its_node_and_its_times(
    cluster: SlurmCluster, folder: Path
) -> None:
    launcher = SlurmLauncher(folder, run_config(partition="low", minutes=33), stand_in(folder))
    start(cluster, launcher, 1)
    cluster.wait("a second", lambda: launcher.observe().jobs[0].seconds >= 1)
    (job,) = launcher.observe().jobs
    assert re.fullmatch(r"dgx[1-4]", job.node)
    assert (job.partition, job.restarts, job.starts) == ("low", 0, None)
    assert job.left == 33 * 60 - job.seconds


def test_requeued_elements_are_told_from_those_that_wait_for_the_first_time(
    cluster: SlurmCluster, folder: Path
) -> None:
    launcher = SlurmLauncher(folder, run_config(partition="low"), stand_in(folder))
    array = start(cluster, launcher, 3)
    assert launcher.observe().throttles == {}  # nothing waits
    cluster.run("scontrol", "update", f"JobId={array}", "ArrayTaskThrottle=2")
    cluster.run("scontrol", "requeue", f"{array}_1")
    asked = time.time()

    def requeued() -> bool:
        return {job.slot for job in launcher.observe().jobs if job.requeued} == {f"{array}_1"}

    cluster.wait("the requeued one", requeued)
    view = launcher.observe()
    job = next(job for job in view.jobs if job.requeued)
    assert (job.restarts, job.node) == (1, "")
    assert job.reason in ("BeginTime", "JobArrayTaskLimit")
    assert view.throttles == {array: 2}
    if job.starts is not None:
        assert abs(job.starts - asked - Options().requeue_seconds) < 60  # no time zone in between
    cluster.run("scontrol", "update", f"JobId={array}", "ArrayTaskThrottle=0")
    assert launcher.observe().throttles == {}


def test_what_is_idle_is_what_slurm_has_left(cluster: SlurmCluster, folder: Path) -> None:
    config = run_config(partition="low", cpus=5, gpus=1, waiting=1)
    launcher = SlurmLauncher(folder, config, stand_in(folder))
    before = launcher.observe()
    assert before.idle is not None
    assert {node.name for node in before.idle.nodes} == {f"dgx{n}" for n in range(1, 5)}
    assert set(before.idle.nodes) == {IdleNode(f"dgx{n}", 8, 16) for n in range(1, 5)}
    assert before.room == 4 * 3  # by cores: 3 on each node
    start(cluster, launcher, 1)
    after = launcher.observe()
    assert after.idle is not None
    assert (before.idle.gpus - after.idle.gpus, before.idle.cpus - after.idle.cpus) == (1, 5)
    assert after.room == 11
    cluster.run("scontrol", "update", "NodeName=dgx4", "State=DRAIN", "Reason=test")
    try:
        drained = launcher.observe().idle
        assert drained is not None
        assert "dgx4" not in {node.name for node in drained.nodes}
    finally:
        cluster.run("scontrol", "update", "NodeName=dgx4", "State=RESUME")


def test_as_many_start_at_once_as_there_is_room_for(cluster: SlurmCluster, folder: Path) -> None:
    config = run_config(partition="low", cpus=6, gpus=3, waiting=1)
    launcher = SlurmLauncher(folder, config, stand_in(folder))
    room = launcher.observe().room
    assert room == 4 * 2  # by GPUs
    launcher.submit(Intent(0, "5eed", "slots", room + 1))

    def states() -> list[str]:
        return sorted(job.state for job in launcher.observe().jobs)

    cluster.wait("all that fit", lambda: states() == ["pending", *["running"] * room])
    assert launcher.observe().room == 0


def test_the_limits_are_those_of_the_cluster(cluster: SlurmCluster, folder: Path) -> None:
    assert SlurmLauncher(folder, run_config()).observe().max_array_size == 1001
    settings = read_settings(cluster.run("scontrol", "show", "config"))
    assert settings["SLURM_VERSION"] in cluster.run("squeue", "--version")
    assert requeue_seconds(settings) == Options().requeue_seconds + 1


def test_where_any_number_may_wait_nobody_asks_what_is_idle(
    cluster: SlurmCluster, folder: Path
) -> None:
    view = SlurmLauncher(folder, run_config(partition="low")).observe()
    assert (view.idle, view.room) == (None, None)
    assert view.max_array_size is not None


def test_who_only_looks_asks_for_the_jobs_alone(cluster: SlurmCluster, folder: Path) -> None:
    config = run_config(partition="low", waiting=1)
    launcher = SlurmLauncher(folder, config, stand_in(folder))
    start(cluster, launcher, 1)
    view = launcher.observe(patience=30.0)
    assert len(view.jobs) == 1
    assert (view.idle, view.room, view.max_array_size) == (None, None, None)


def test_without_the_hints_the_jobs_are_seen(
    cluster: SlurmCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, python = run_config(partition="low", waiting=1), stand_in(folder)
    start(cluster, SlurmLauncher(folder, config, python), 1)
    only = folder / "bin"
    only.mkdir()
    squeue = shutil.which("squeue")
    assert squeue is not None
    (only / "squeue").symlink_to(squeue)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PATH", str(only))
        view = SlurmLauncher(folder, config, python).observe()
    assert len(view.jobs) == 1
    unknown = (view.idle, view.room, view.max_array_size, view.throttles)
    assert unknown == (None, None, None, {})


def test_a_cluster_that_keeps_no_account_has_no_history(
    cluster: SlurmCluster, folder: Path
) -> None:
    launcher = SlurmLauncher(folder, run_config(partition="low"), stand_in(folder))
    array = start(cluster, launcher, 1)
    assert launcher.history([array]) is None
    assert launcher.history([]) == ()

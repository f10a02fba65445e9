"""A coordinator may die in any way: the one that waits takes over at once, and slots don't mind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.preemption.scene import Scene
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def killed(scene: Scene, job: str) -> None:
    scene.shell.cluster.run("scancel", "--signal=KILL", f"{job}.0")


def near_its_limit(scene: Scene, job: str) -> None:
    scene.shell.cluster.run("scancel", "--signal=USR2", job)


def preempted(scene: Scene, job: str) -> None:
    scene.evict(job)


def cancelled(scene: Scene, job: str) -> None:
    scene.shell.cluster.run("scancel", job)


def robbed_of_its_node(scene: Scene, job: str) -> None:
    (node,) = scene.nodes(job)
    scene.shell.cluster.set_node(node, "down")
    scene.shell.cluster.set_node(node, "resume")


def test_the_successor_takes_over_at_once_whatever_ends_a_coordinator(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    # Whoever is requeued would wait for ten minutes: longer than this test does.
    cluster = start_slurm(Options(nodes=5, gpus=0, cpus=4, requeue_seconds=600))
    scene = Scene(Shell(cluster, tmp_path, probe=False), "led", array=True, ranks=1, pause=0.016)
    slots = scene.begin()
    for way in (killed, near_its_limit, preempted, cancelled, robbed_of_its_node):
        scene.until("a successor", lambda: len(scene.coordinators("PD")) == 1)
        (first,), (second,) = scene.coordinators("R"), scene.coordinators("PD")
        way(scene, first)
        scene.until(
            f"the successor of the one that was {way.__name__}", partial(scene.leads, second)
        )
    assert scene.slots() == slots
    scene.stop()

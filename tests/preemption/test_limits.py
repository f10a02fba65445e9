"""Jobs near their time limit save what they do and come back by themselves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.preemption.scene import Scene
from tests.slurm.runs import Shell
from tests.support.slots import gone
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

LIMITED = Options(nodes=7, gpus=0, cpus=4, kill_seconds=60)
"""A node for the coordinators, two for the array, one for the job of its own, two for the ranks."""


def stopped(scene: Scene, slots: dict[str, int]) -> None:
    """One slot is stopped as by a debugger: Slurm wakes it, and it hears the signal then."""
    os.killpg(max(slots.values()), signal.SIGSTOP)


def late(scene: Scene, slots: dict[str, int]) -> None:
    """The training hears nothing until its time is over."""
    ((slot, pid),) = slots.items()
    (scene.notes / "stuck").touch()
    # By the log: Slurm's word for the job itself is gone as soon as that is requeued. Or the slot
    # has ended just before, as one does that was told to go long ago.
    log = scene.shell.cluster.folder / "log" / "slurmctld.log"
    ended = f"Time limit exhausted for JobId={slot}\n"
    scene.until("the end of its time", lambda: ended in log.read_text() or gone(pid))
    (scene.notes / "stuck").unlink()


def left_alone(scene: Scene, slots: dict[str, int]) -> None:
    """Nothing more."""


def limited(scene: Scene, meanwhile: Callable[[Scene, dict[str, int]], None]) -> None:
    """Whatever else happens, each slot comes back: with all that it has done, or if it was late
    with what was saved."""
    slots = scene.begin()
    pods = {slot: scene.pod(slot) for slot in slots}
    first = scene.coordinators("R")
    meanwhile(scene, slots)
    for slot in slots:
        scene.until_trained(slot, 1)
        assert scene.restarts(slot) == 1
        record = scene.run.folder.restarts.read(slot)
        assert record is not None and record.restarts == 1
        if meanwhile is late:
            assert scene.went_on(pods[slot]) <= len(scene.steps(slot, 0))
            continue
        assert len(scene.steps(slot, 0)) == scene.went_on(pods[slot]) > 0
        assert record.without_progress == 0

    def succeeded() -> bool:
        return len(scene.coordinators("R")) == 1 and scene.coordinators("R") != first

    scene.until("the next coordinator", succeeded)
    scene.stop()


def test_jobs_near_their_time_limit_come_back_with_all_that_they_have_done(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    cluster = start_slurm(LIMITED)

    def scene(name: str, *, array: bool, ranks: int) -> Scene:
        shell = Shell(cluster, tmp_path / name, probe=False)
        return Scene(shell, name, array=array, ranks=ranks, minutes=2, pause=0.016)

    with ThreadPoolExecutor() as pool:
        at_once = [
            pool.submit(limited, scene("array", array=True, ranks=1), stopped),
            pool.submit(limited, scene("late", array=False, ranks=1), late),
            pool.submit(limited, scene("ranks", array=False, ranks=4), left_alone),
        ]
        for future in at_once:
            future.result()

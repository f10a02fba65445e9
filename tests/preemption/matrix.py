"""The cells of the matrix, each played on a cluster of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.preemption.cells import Cell
from tests.preemption.scene import Scene
from tests.slurm.runs import Shell
from tests.support.slots import gone
from tests.support.slurm_cluster import SlurmCluster


@dataclass(frozen=True)
class Outcome:
    """What became of a slot that was preempted."""

    what: str
    """``requeued``, or ``resubmitted``: its work was taken up by another job's slot."""
    restarts: int
    """Slurm's count of them."""
    lost_steps: int
    """Environment steps that were taken before, and again after it."""
    lost_seconds: float
    """The time that they took."""
    saved: bool
    """Whether it went on from the furthest checkpoint that there was."""
    back_seconds: float
    """From the scheduler's start of the slot to its first training step."""
    away_seconds: float
    """From its last training step before to its first one after."""
    bystanders: bool
    """Whether the array's other elements went on as the same processes, and asked Slurm nothing."""
    calls: tuple[str, ...]
    """The commands of Slurm's that the slot has called: its batch script does, at its end."""


def play(cell: Cell, home: Path) -> Outcome:
    """Preempt one slot of a run on a cluster that is as the cell says; see what becomes of it."""
    home.mkdir()
    with SlurmCluster.started(cell.options) as cluster:
        shell = Shell(cluster, home, probe=False)
        scene = Scene(shell, str(cell), array=cell.array, ranks=cell.ranks)
        before = scene.begin()
        victim = min(before)
        pod = scene.pod(victim)
        if not cell.hears:
            scene.until_late(victim)
            (scene.notes / "stuck").touch()
        scene.evict(victim)
        scene.until("its end", lambda: gone(before[victim]))
        last = scene.run.folder.checkpoints.latest(pod, 1)
        (scene.notes / "stuck").unlink(missing_ok=True)
        first = {(slot, 0) for slot in before}
        scene.until("its work to go on", lambda: bool(set(scene.lives()) - first))
        slot, restarts = min(set(scene.lives()) - first)
        again, took = scene.until_trained(slot, restarts), scene.steps(victim, 0)
        resumed = scene.went_on(pod)
        outcome = Outcome(
            what="requeued" if slot == victim else "resubmitted",
            restarts=scene.restarts(victim),
            lost_steps=len(took) - resumed,
            lost_seconds=took[-1] - took[resumed - 1],
            saved=last is not None and last.env_steps == resumed,
            back_seconds=again[0] - scene.started(slot),
            away_seconds=again[0] - took[-1],
            bystanders=all(
                scene.slots().get(other) == pid and not gone(pid) and not scene.calls(other)
                for other, pid in before.items() if other != victim
            ),
            calls=tuple(scene.calls(victim)),
        )  # fmt: skip
        scene.stop()
    return outcome


def play_all(
    cells: Sequence[Cell], home: Path, at_once: int
) -> Iterator[tuple[Cell, Outcome | Exception, float]]:
    """Play cells, some at once, each in a folder of its own; with the seconds that each took."""

    def one(cell: Cell) -> tuple[Cell, Outcome | Exception, float]:
        began = time.monotonic()
        try:
            outcome: Outcome | Exception = play(cell, home / str(cell))
        except Exception as error:
            outcome = error
        return cell, outcome, time.monotonic() - began

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(one, cells)

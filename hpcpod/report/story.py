"""All that a report tells of one run, read once."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Board, Decision, PodState
from hpcpod.report.plot import HUES
from hpcpod.run.advice import Advice
from hpcpod.run.configuration_scores import ConfigurationScore
from hpcpod.run.history import Result, results
from hpcpod.run.leaderboard import Row
from hpcpod.run.run import Run
from hpcpod.run.snapshot_scores import SnapshotScore
from hpcpod.run.status import Best, Status
from hpcpod.run.usage import Activity, Usage, activities, usage
from hpcpod.storage.quarantine import Quarantined

FEW = 12
"""Most pods whose lines are drawn alike; of more, all but the winner's lineage are thin."""


@dataclass(frozen=True)
class Story:
    """A run at one moment, with its whole history."""

    name: str
    config: RunConfig
    algorithms: Mapping[str, AlgorithmSpace]
    versions: Mapping[str, str]
    board: Board
    status: Status
    best: Best | None
    rows: tuple[Row, ...]
    configurations: tuple[ConfigurationScore, ...]
    """Hyperparameters over their seeds; empty but with ``allocator: replicates``."""
    lineage: tuple[PodState, ...]
    """The winner's ancestors and itself, founder first; empty before the first report."""
    results: tuple[Result, ...]
    """Every report, oldest first."""
    activities: tuple[Activity, ...]
    """The activity of each slot from moment to moment."""
    usage: tuple[Usage, ...]
    """The time of all slots by purpose."""
    decisions: tuple[Decision, ...]
    snapshots: tuple[SnapshotScore, ...]
    quarantined: tuple[Quarantined, ...]
    advice: tuple[Advice, ...]
    """The changes to ask for in the next run."""
    at: float
    """Unix time of the look, in seconds."""
    folder: Path
    """The run folder."""

    @cached_property
    def rounds(self) -> dict[str, list[Result]]:
        """Of each pod the rounds that have a score, in order; of a round that was trained twice the
        one that counted, or the later one. Of a finished run those that counted alone: what comes
        after the end is no part of it."""
        ended = self.board.phase == "finished"
        kept: dict[str, dict[int, Result]] = {}
        for row in self.results:
            if row.purpose == "round" and row.mean is not None and (row.counted or not ended):
                mine = kept.setdefault(row.pod, {})
                if row.counted or row.round not in mine:
                    mine[row.round] = row
        return {pod: [mine[number] for number in sorted(mine)] for pod, mine in kept.items()}

    @cached_property
    def path(self) -> list[Result]:
        """The rounds that led to the winner: each ancestor's up to its copy, then the copy's."""
        found: list[Result] = []
        children = [*self.lineage[1:], None]
        for pod, child in zip(self.lineage, children, strict=False):  # of nobody, too
            last = math.inf if child is None else child.parent_round
            found += [row for row in self.rounds.get(pod.id, []) if row.round <= last]
        return found

    @cached_property
    def kin(self) -> frozenset[str]:
        """Names of the pods of the winner's lineage."""
        return frozenset(pod.id for pod in self.lineage)

    @cached_property
    def hues(self) -> dict[str, str]:
        """The CSS class of each algorithm's colour."""
        return {name: f"k{i % HUES}" for i, name in enumerate(sorted(self.algorithms))}

    def hue(self, algorithm: str) -> str:
        """The CSS class of an algorithm's colour."""
        return self.hues.get(algorithm, "k0")

    def kind(self, pod: str) -> str:
        """The CSS classes of a pod's line: strong if of the lineage, thin if there are many."""
        strength = "win" if pod in self.kin else "thin" if len(self.rounds) > FEW else "each"
        return f"{self.hue(self.board.pods[pod].algorithm)} {strength}"

    @cached_property
    def hours(self) -> dict[str, float]:
        """GPU-hours, or core-hours of a run without GPUs, that all orders reported until then had
        taken, by the order that was reported."""
        total, found = 0.0, {}
        for row in self.results:
            total += row.cost
            found[row.order] = total / 3600 * self.devices
        return found

    @property
    def gpus(self) -> float:
        """GPUs of a slot; a part of one, if slots share it."""
        resources = self.config.resources
        return resources.gpus_per_pod / resources.pods_per_gpu

    @property
    def devices(self) -> float:
        """GPUs of a slot, or its cores if it has no GPU."""
        return self.gpus or shape_of(self.config).cpus

    @property
    def device_hours(self) -> str:
        """The unit of ``hours``."""
        return "GPU-hours" if self.gpus else "core-hours"


def read(run: Run, board: Board | None = None) -> Story:
    """Read a run's whole story.

    Raises:
        StorageError: the run folder can't be read.
        ConfigError: its configuration is of another version.
    """
    board = board or run.board()
    status, rows = run.status(board), results(run.folder, board)
    return Story(
        name=run.name,
        config=run.folder.resolved.config,
        algorithms=run.folder.resolved.algorithms,
        versions=_texts(run.folder.config.get("versions")),
        board=board,
        status=status,
        best=status.best,
        rows=run.leaderboard(board),
        configurations=run.configurations(board),
        lineage=tuple(run.lineage(board=board)),
        results=rows,
        activities=tuple(activities(run.folder, board, rows)),
        usage=usage(run.folder, board, rows),
        decisions=tuple(run.decisions(board=board)),
        snapshots=run.snapshots(board),
        quarantined=tuple(run.folder.quarantine.list()),
        advice=run.advice(),
        at=time.time(),
        folder=run.path,
    )


def _texts(found: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}

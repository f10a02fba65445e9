"""A run as it was seen while it ran, and its end: recorded, thinned, kept as JSON."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hpcpod.config.loader import from_mapping
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Board, Checkpoint, Evaluation, PodState, decode
from hpcpod.run.snapshot import see
from hpcpod.storage.restarts import RestartRecord
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus

SHARES = (0.25, 0.5, 0.75)
"""Of a run's time, from the first slot at work to its end, at which a recording keeps a frame."""
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Recording:
    """One run: what was seen at some moments, and when it ended."""

    name: str
    config: Mapping[str, Any]
    """As in a configuration file."""
    ended: float
    """Unix time in seconds, as of the last frame's clock."""
    load: float
    """Processes that wanted a core while it ran, on average, its own included."""
    reason: str
    """The reason of its end, see ``Board.stop_reason``."""
    frames: tuple[Snapshot, ...]


def record(name: str, config: Mapping[str, Any]) -> Recording:
    """Launch a run in a process of its own and look at it until it has ended; every frame.

    Raises:
        RuntimeError: it ended otherwise.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        path = Path(home) / "run.yaml"
        path.write_text(yaml.safe_dump(dict(config)))
        words = [sys.executable, "-m", "hpcpod", "launch", str(path)]
        with (Path(home) / "log").open("w+") as log:
            launch = subprocess.Popen(words, cwd=home, stdout=log, stderr=subprocess.STDOUT)
            try:
                frames, loads = _watched(Path(home) / "runs" / str(config["name"]), launch)
            finally:
                launch.terminate()
                launch.wait()
            log.seek(0)
            said = log.read()
    board = frames[-1].board if frames else None
    if board is None or board.phase != "finished":
        raise RuntimeError(f"{name} has not finished:\n{said}")
    load = round(sum(loads) / len(loads), 1)
    return Recording(name, config, frames[-1].now, load, str(board.stop_reason), tuple(frames))


def _watched(path: Path, launch: subprocess.Popen[bytes]) -> tuple[list[Snapshot], list[float]]:
    """Frames of a run until it has finished, and the machine's load at each."""
    frames: list[Snapshot] = []
    loads: list[float] = []
    while launch.poll() in (None, 0):
        time.sleep(LOOK_SECONDS)
        if not (path / "board" / "00000" / "00000000.json").exists():
            continue
        frames.append(see(RunFolder.open(path), ask=True))
        loads.append(os.getloadavg()[0])
        if frames[-1].board.phase == "finished":
            break
    return frames, loads


def thinned(recording: Recording, shares: Sequence[float] = SHARES) -> Recording:
    """The recording with the frames that are nearest to shares of the run's time, and of these
    what a forecast needs."""
    began = next(f.board.began for f in reversed(recording.frames) if f.board.began is not None)
    moments = [began + share * (recording.ended - began) for share in shares]
    going = [frame for frame in recording.frames if frame.board.phase != "finished"]
    chosen = [min(going, key=lambda frame: abs(frame.now - moment)) for moment in moments]
    return replace(recording, frames=tuple(replace(f, board=_small(f.board)) for f in chosen))


def to_json(recording: Recording) -> dict[str, Any]:
    """A recording as JSON-able data."""
    return {
        **{name: getattr(recording, name) for name in ("name", "config", "load", "reason")},
        "ended": round(recording.ended, 2),
        "frames": [_frame(seen) for seen in recording.frames],
    }


def from_json(data: Mapping[str, Any]) -> Recording:
    """The inverse of ``to_json``."""
    # The recorded runs are of versions that tried no ensembles at their end.
    stop = {"ensembles": {"rules": []}, **data["config"].get("stop", {})}
    config = from_mapping({**data["config"], "stop": stop})
    frames = tuple(
        Snapshot(
            path=Path(data["name"]),
            config=config,
            board=decode(Board, frame["board"]),
            places=config.cluster.slots,
            slots={name: decode(SlotStatus, shown) for name, shown in frame["slots"].items()},
            restarts={name: decode(RestartRecord, each) for name, each in frame["lives"].items()},
            view=None if frame["jobs"] is None else _view(frame["jobs"]),
            now=frame["now"],
            clock=frame["now"],
        )
        for frame in data["frames"]
    )
    return Recording(
        data["name"], data["config"], data["ended"], data["load"], data["reason"], frames
    )


def _view(jobs: Sequence[Any]) -> ClusterView:
    return ClusterView(tuple(decode(JobView, job) for job in jobs))


def _frame(seen: Snapshot) -> dict[str, Any]:
    return {
        "now": round(seen.now, 2),
        "board": _plain(seen.board),
        "slots": _plain(seen.slots),
        "lives": {name: _plain(replace(each, orders={})) for name, each in seen.restarts.items()},
        "jobs": None if seen.view is None else [_plain(job) for job in seen.view.jobs],
    }


def _plain(value: Any) -> Any:
    """A value as JSON: numbers in few digits, and of a record only what is not as by default."""
    if is_dataclass(value):
        found = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _plain(each) for field, each in found if each != _default(field)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 2) if math.isfinite(value) else 0.0
    return value


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _small(board: Board) -> Board:
    """A board without returns, weights' names and hyperparameters."""
    return replace(
        board,
        pods={name: _small_pod(pod) for name, pod in board.pods.items()},
        entries=tuple(replace(e, checkpoint=_bare(e.checkpoint)) for e in board.entries),
        rescores={
            name: replace(order, hyperparameters={}, checkpoint=_bare(order.checkpoint), earlier=())
            for name, order in board.rescores.items()
        },
        confirmed=tuple(replace(s, checkpoint=_bare(s.checkpoint)) for s in board.confirmed),
        finals=replace(
            board.finals,
            returns={},
            candidates=(),
            finalists=tuple(
                replace(m, hyperparameters={}, checkpoint=_bare(m.checkpoint))
                for m in board.finals.finalists
            ),
        ),
    )


def _small_pod(pod: PodState) -> PodState:
    birth = pod.birth
    if birth is not None:
        start = None if birth.checkpoint is None else _bare(birth.checkpoint)
        birth = replace(birth, hyperparameters={}, checkpoint=start)
    return replace(
        pod,
        family="",
        hyperparameters={},
        parent_returns=(),
        evidence="",
        fate_reason="",
        history=tuple(_small_evaluation(each) for each in pod.history),
        milestones=tuple(replace(each, returns=()) for each in pod.milestones),
        best=None if pod.best is None else _small_evaluation(pod.best),
        birth=birth,
    )


def _small_evaluation(evaluation: Evaluation) -> Evaluation:
    return replace(evaluation, returns=(), checkpoint=_bare(evaluation.checkpoint), metrics={})


def _bare(checkpoint: Checkpoint) -> Checkpoint:
    return Checkpoint("", checkpoint.env_steps)

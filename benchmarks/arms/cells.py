"""Cells: one for each axis, task, arm and seed; a file each, so that a benchmark resumes."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from asked import rows
from contenders.venvs import last_words
from peers import THREADS, end_group

from arms.order import MARK, Axis, Order
from arms.registry import ARMS
from arms.tasks import TASKS, TRAININGS

BENCHMARKS = Path(__file__).parents[1]
LIMIT = 3600.0
"""Seconds after which a cell is given up."""


@dataclass(frozen=True)
class Cell:
    """A delivered policy, and what it is worth."""

    task: str
    arm: str
    seed: int
    axis: Axis
    made: str
    """A digest of the task and of the budget: of others it is another cell."""
    slots: int = 1
    mean: float | None = None
    """Mean return on fresh episodes; None: it has failed."""
    error: float = 0.0
    """Its standard error."""
    claimed: float = 0.0
    """The mean return that the arm shows for the policy."""
    env_steps: int = 0
    seconds: float = 0.0
    """From the start of the arm's process until its policy was there."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    commit: str = ""
    """Of this checkout, when it was played."""

    @property
    def path(self) -> Path:
        """Its path below the folder of all."""
        return Path(self.axis) / self.task / f"{self.arm}-{self.seed}.json"


def made(task: str, share: float) -> str:
    """See ``Cell``."""
    text = repr((TASKS[task], TRAININGS, share))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read(path: Path) -> list[Cell]:
    """The cells of a folder, or of a file that holds a line each.

    Raises:
        UserError: there is something else.
    """
    if path.is_dir():
        return rows(Cell, sorted(path.rglob("*.json")))
    return rows(Cell, [path] if path.exists() else [])


def write(folder: Path, cell: Cell) -> None:
    """Keep a cell: the whole file or none."""
    path = folder / cell.path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(cell)))
    temporary.replace(path)


def missing(cells: Iterable[Cell], known: Iterable[Cell]) -> Iterator[Cell]:
    """Those of the cells that are not known with a score."""
    done = {(cell.path, cell.made) for cell in known if cell.mean is not None}
    return (cell for cell in cells if (cell.path, cell.made) not in done)


def played(cell: Cell, share: float, python: Path, here: Path) -> Cell:
    """Have the arm's process play a cell, and score what it delivers in another one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        order = Order(cell.task, cell.arm, cell.seed, cell.axis, cell.slots, folder, share)
        module = f"arms.{ARMS[cell.arm].module}"
        try:
            out = answer([str(python), "-m", module], folder, json.dumps(asdict(order)))
            told = json.loads(out.rpartition(MARK)[2])
            episodes = max(2, round(order.task.episodes * min(1.0, share)))
            asked = [str(here), "-m", "arms.scoring", str(order.policy), order.task.env]
            returns = json.loads(answer([*asked, str(episodes)], folder))
        except (subprocess.SubprocessError, ValueError) as error:
            return replace(cell, failure=str(error)[-300:])
    spread = statistics.stdev(returns) / len(returns) ** 0.5
    score = {"mean": statistics.fmean(returns), "error": spread, "commit": _commit()}
    return replace(cell, **told, **score)


def _commit() -> str:
    """This checkout's commit, with a plus where something was edited."""
    asked = ["git", "describe", "--always", "--dirty=+"]
    done = subprocess.run(asked, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def answer(command: list[str], folder: str, text: str = "", limit: float = LIMIT) -> str:
    """Standard output of a process, which is ended with all that it has started.

    Raises:
        SubprocessError: it failed, or took longer than ``limit`` seconds.
    """
    process = subprocess.Popen(
        command, cwd=folder, env=_environment(), text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(text, timeout=limit)
    finally:
        end_group(process)
    if process.returncode != 0:
        raise subprocess.SubprocessError(f"exit {process.returncode}: {last_words(err)}")
    return out


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        **dict.fromkeys(THREADS, "1"),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)]),
        "PYTHONWARNINGS": "ignore",
    }

"""Programs of a few lines without hpcpod, and rounds of them that are executed in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcpod.config.loader import from_mapping
from hpcpod.pod.watch import Watch
from hpcpod.program.runner import Program
from hpcpod.records.records import Birth, Order, Report
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

PYTHON = (sys.executable, "-I", "-S")
"""Without site-packages: it starts in 10 ms."""

READ = """
import json, os, sys, time
from pathlib import Path
session = Path(os.environ["HPCPOD_SESSION"])
task = json.loads((session / "task.json").read_text())
save = task["save_to"] and Path(task["save_to"])
def tell(**row):
    with open(task["progress_to"], "a") as file:
        file.write(json.dumps(row) + "\\n")
def report(**answer):
    made = Path(task["report_to"] + ".part")
    made.write_text(json.dumps({"format": 1, **answer}))
    made.rename(task["report_to"])
def stopping():
    return Path(task["stop_file"]).exists()
"""
"""The contract in twelve lines."""

ADDS = (
    READ
    + """
weight = 0.0
if task["checkpoint"]:
    weight = float(Path(task["checkpoint"], "weight").read_text())
left = (task["steps"] or 0) - task["steps_done"] if task["mode"] == "train" else 0
for step in range(left):
    weight += task["hyperparameters"]["rate"]
    tell(steps=step + 1, weight=weight)
if save:
    (save / "weight").write_text(repr(weight))
report(steps=left, returns=[weight + seed / 2**40 for seed in task["panel_seeds"]])
"""
)
"""Adds its rate to its weight at each step; an episode returns the weight, and a little by seed."""


def mapping(script: str, home: Path, **sections: Any) -> dict[str, Any]:
    """A configuration of one pod with a script; one word for each section's changes."""
    (home / "train.py").write_text(script)
    whole: dict[str, Any] = {
        "name": "small",
        "program": {
            "command": [*PYTHON, "train.py"], "folder": str(home),
            "search": {"rate": {"uniform": [0.5, 1.5]}}, "stop_seconds": 2.0,
        },
        "population": {"pods": {"min": 1, "max": 1}},
        "round": {"env_steps": 4, "episodes": 8},
        "stop": {"rounds": 3, "finalists": 1, "confirm_episodes": 4},
        "cluster": {"tick_seconds": 0.2},
    }  # fmt: skip
    for name, section in sections.items():
        whole[name] = {**whole.get(name, {}), **section} if isinstance(section, dict) else section
    return whole


def create(script: str, home: Path, **sections: Any) -> RunFolder:
    """A run folder, made as ``launch`` makes it, with nobody at work in it."""
    config = from_mapping(mapping(script, home, **sections))
    return create_run(check(config).resolved, home / "runs")


def birth_of(folder: RunFolder, pod: str = "p0001") -> Birth:
    """The open birth of a pod."""
    birth = read_board(folder).pods[pod].birth
    assert birth is not None
    return birth


@contextmanager
def running(folder: RunFolder) -> Iterator[Program]:
    """A program that executes orders here, and is gone afterwards."""
    program = Program(folder)
    try:
        yield program
    finally:
        program.close_loggers()


def execute(folder: RunFolder, order: Order, watch: Watch | None = None) -> Report:
    """Execute one order in a process of its own."""
    with running(folder) as program:
        return program.execute(order, "here", watch or Watch())


def saved(folder: RunFolder, report: Report, to: Path) -> Mapping[str, bytes]:
    """The files of a report's checkpoint."""
    from hpcpod.storage.saved_folders import write_folder

    assert report.checkpoint is not None
    write_folder(folder.blobs, report.checkpoint.core, to)
    return {str(p.relative_to(to)): p.read_bytes() for p in sorted(to.rglob("*")) if p.is_file()}


def once(holds: Callable[[], bool]) -> Watch:
    """A watch that asks to stop once something holds."""
    return Watch(should_stop=holds)


def gone(pid: int, seconds: float = 20.0) -> bool:
    """True once no process has this number, or only a dead one that nobody has waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return True
        if state == b"Z":
            return True
        time.sleep(0.02)
    return False

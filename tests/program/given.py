"""Sessions as hpcpod gives them to a program: a folder with a task, and what it finds there."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest


def give(folder: Path, **changes: Any) -> dict[str, Any]:
    """Write a task whole, as hpcpod does; the first of a round of 100 steps and four episodes."""
    task: dict[str, Any] = {
        "format": 1, "number": 0, "mode": "train", "pod": "p0001", "round": 3, "attempt": 1,
        "hyperparameters": {"learning_rate": 0.001}, "seed": 7, "checkpoint": None,
        "save_to": str(folder / "save"), "steps": 100, "steps_done": 0, "seconds": None,
        "panel_seeds": [11, 12, 13, 14],
        "report_to": str(folder / f"report-{changes.get('number', 0)}.json"),
        "stop_file": str(folder / "stop"), "progress_to": str(folder / "progress.jsonl"),
    } | changes  # fmt: skip
    folder.mkdir(exist_ok=True)
    if task["save_to"]:
        Path(task["save_to"]).mkdir(exist_ok=True)
    part = folder / "task.json.part"
    part.write_text(json.dumps(task), encoding="utf-8")
    part.replace(folder / "task.json")
    return task


def variables(folder: Path, task: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a program: this process's, and those that name the task."""
    names = task["hyperparameters"]
    paths = {"HPCPOD_CHECKPOINT": task["checkpoint"], "HPCPOD_SAVE_TO": task["save_to"]}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("HPCPOD_")},
        "OMP_NUM_THREADS": "1", "HPCPOD_SESSION": str(folder), "HPCPOD_MODE": task["mode"],
        "HPCPOD_SEED": str(task["seed"]),
        "HPCPOD_STEPS": str((task["steps"] or 0) - task["steps_done"]),
        "HPCPOD_HYPERPARAMETERS": json.dumps(names), "HPCPOD_REPORT_TO": task["report_to"],
        "HPCPOD_PROGRESS_TO": task["progress_to"], "HPCPOD_STOP_FILE": task["stop_file"],
        "HPCPOD_PANEL_SEEDS": " ".join(map(str, task["panel_seeds"])),
        **{f"HPCPOD_P_{name.upper()}": str(value) for name, value in names.items()},
        **{name: path for name, path in paths.items() if path},
    }  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """A file that the program has written."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of ``progress.jsonl``."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def play(command: Sequence[str], folder: Path, *tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Have a program play tasks one after another as hpcpod gives them, the later ones to the same
    process if it asks to be kept: its reports.

    A task whose ``checkpoint`` is a number begins with what that task saved.
    """
    process: subprocess.Popen[str] | None = None
    reports = []
    for number, changes in enumerate(tasks):
        part = {"number": number, "save_to": str(folder / f"save-{number}"), **changes}
        if isinstance(part.get("checkpoint"), int):
            part["checkpoint"] = str(folder / f"save-{part['checkpoint']}")
        task = give(folder, **part)
        if process is None:
            process = subprocess.Popen(
                command, env=variables(folder, task), text=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )  # fmt: skip
        process = _until_reported(process, folder, Path(task["report_to"]))
        reports.append(read(Path(task["report_to"])))
    if process is not None:
        give(folder, number=len(tasks), end=True)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    return reports


def play_here(
    patch: pytest.MonkeyPatch, script: Path, folder: Path, *tasks: Mapping[str, Any],
    words: Sequence[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """As ``play``, but in this process, where torch is loaded already: it takes two seconds less.

    The marks of its saves are taken, and their names are in the last report, as ``marks``.
    """
    reports = [folder / f"report-{number}.json" for number in range(len(tasks))]
    marks, over, given, done = list[str](), threading.Event(), threading.Semaphore(0), 0

    def task(number: int) -> dict[str, Any]:
        if number == len(tasks):
            return give(folder, number=number, end=True)
        part = {"number": number, "save_to": str(folder / f"save-{number}"), **tasks[number]}
        if isinstance(part.get("checkpoint"), int):
            part["checkpoint"] = str(folder / f"save-{part['checkpoint']}")
        return give(folder, **part)

    def take() -> None:
        """Hpcpod's side."""
        for number, report in enumerate(reports):
            while not report.exists() and not over.wait(0.002):
                for mark in folder.glob("saved-*.json"):
                    marks.append(mark.name)
                    mark.unlink()
            task(number + 1)
            given.release()

    for name, value in variables(folder, task(0)).items():
        patch.setenv(name, value)
    patch.setattr(sys, "argv", [str(script), *words])
    hpcpod = threading.Thread(target=take)
    hpcpod.start()
    try:
        while done < len(tasks):
            runpy.run_path(str(script), run_name="__main__")
            reported = sum(report.exists() for report in reports)
            assert reported > done, "it left without a report"
            for _ in range(reported - done):
                given.acquire()
            done = reported
    finally:
        over.set()
        hpcpod.join()
    found = [read(report) for report in reports]
    return [*found[:-1], {**found[-1], "marks": marks}]


def _until_reported(
    process: subprocess.Popen[str], folder: Path, report: Path
) -> subprocess.Popen[str] | None:
    """Take saves until there is a report; None if the process is not to be kept."""
    while not report.exists() and process.poll() is None:
        for mark in folder.glob("saved-*.json"):
            mark.unlink()
        time.sleep(0.005)
    if (folder / "hello.json").exists() and process.poll() is None:
        return process
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0 and report.exists(), said
    return None

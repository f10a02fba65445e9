"""Overheads of a tournament beside Ray Tune's: ``python benchmarks/beside_ray.py``, in a minute.

Both play a population of ``PODS`` on one slot, and copy as often as their rules let them:
truncation without a test. hpcpod trains PPO in rounds of ``ROUND`` steps, from checkpoints of 2 MB;
a step of Ray's trials sleeps, with torch loaded and a checkpoint as large, so that its time is
known. Each runs in a process of its own, one after the other. Printed are the seconds from the
start of that process to the first training step, less those of an ``import torch`` in the same
Python; the seconds between two pieces of work of the slot, where a pod goes on and where one is a
copy; and the proportional memory (PSS, Linux) of every process that trains nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from asked import ended, number
from contenders.venvs import NotInstalled, python_of
from peers import end_group

HERE = Path(__file__).parent
TRAINS = ("ray::", "hpcpod.pod")
"""Parts of the command line of a process that trains."""
WAYS: Mapping[str, tuple[str, str]] = {
    "hpcpod": ("overheads.ours", ""),
    "ray tune, actors reused": ("overheads.ray_tune", "raytune"),
    "ray tune, its default": ("overheads.ray_tune", "raytune"),
}


def coordination(root: int) -> float:
    """Megabytes of the descendants of a process, and of itself, that train nothing."""
    total = 0
    parent = psutil.Process(root)
    for process in (parent, *parent.children(recursive=True)):
        try:
            if not any(part in " ".join(process.cmdline()) for part in TRAINS):
                total += process.memory_full_info().pss
        except psutil.Error:
            continue  # it has ended
    return total / 1e6


def watch(root: int, over: threading.Event, seen: list[float]) -> None:
    """Note the memory once a second."""
    while not over.wait(1.0):
        try:
            seen.append(coordination(root))
        except psutil.NoSuchProcess:
            return


def torch_seconds(python: Path, times: int) -> float:
    """Median time of a process that imports torch and no more."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([str(python), "-c", "import torch"], check=True)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def run(module: str, python: Path, asked: Sequence[str]) -> tuple[dict[str, Any], list[float]]:
    """Have a way play its tournament: its answer, and the memory at each second."""
    over, seen = threading.Event(), list[float]()
    began = time.time()
    process = subprocess.Popen(
        [str(python), "-m", module, *asked], cwd=HERE, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    watcher = threading.Thread(target=watch, args=(process.pid, over, seen))
    watcher.start()
    try:
        out, _ = process.communicate(timeout=600)
    finally:
        over.set()
        watcher.join()
        end_group(process)
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    told["start"] = told.pop("first") - began
    return told, seen


def line(name: str, told: Mapping[str, Any], torch: float, memory: Sequence[float]) -> str:
    """A row of the table."""
    on, copied = (
        f"{1e3 * statistics.median(told[kind]):7.0f} ({len(told[kind])})" if told[kind] else "none"
        for kind in ("on", "copied")
    )
    peak = max(memory, default=float("nan"))
    return f"{name:26}{told['start'] - torch:14.2f}{on:>16}{copied:>16}{peak:12.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=number(int, 1), default=20,
        help="rounds of each pod (default: 20)")  # fmt: skip
    parser.add_argument("--venvs", type=Path, default=HERE / ".venvs", help="their folder")
    options = parser.parse_args()
    heads = ("first step, s", "goes on, ms (n)", "copied, ms (n)", "MB")
    print(f"{'':26}{heads[0]:>14}{heads[1]:>16}{heads[2]:>16}{heads[3]:>12}")
    for name, (module, venv) in WAYS.items():
        try:
            python = python_of(venv, options.venvs) if venv else Path(sys.executable)
        except NotInstalled as error:
            print(f"{name:26}{error}")
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            reused = ["--reuse"] if "reused" in name else []
            told, memory = run(module, python, [folder, str(options.rounds), *reused])
        print(line(name, told, torch_seconds(python, 5), memory), flush=True)


if __name__ == "__main__":
    sys.exit(ended(main))

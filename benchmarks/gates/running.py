"""Training runs as processes of their own, some at once, each on one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from contenders.venvs import python_of

from gates.table import OURS, PEER, Run

BENCHMARKS = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def interpreters(missing: list[Run], sb3_python: Path | None, venvs: Path) -> dict[str, Path]:
    """The Python of each library that something is asked of; the peer's is made if none is given.

    Raises:
        NotInstalled: it can't be made.
    """
    pythons = {OURS: Path(sys.executable)}
    if any(order.library == PEER for order in missing):
        pythons[PEER] = sb3_python or python_of("sb3", venvs)
    return pythons


def measure(missing: list[Run], pythons: Mapping[str, Path], jobs: int) -> Iterator[Run]:
    """Train what is missing, ``jobs`` processes at once; what ends first comes first."""
    started: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(run_once, pythons[order.library], order, started) for order in missing
        ]
        try:
            for count, future in enumerate(as_completed(futures), 1):
                run = future.result()
                said = run.failure or f"{run.score:.1f} in {run.curve[-1]['seconds']:.0f} s"
                who = f"{run.row} {run.library} seed {run.order['seed']}"
                print(f"{count}/{len(missing)} {who}: {said}", file=sys.stderr, flush=True)
                yield run
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in started:
                process.terminate()


def run_once(python: Path, order: Run, started: set[subprocess.Popen[str]]) -> Run:
    """One process from start to end."""
    paths = [str(BENCHMARKS), str(BENCHMARKS.parent), os.environ.get("PYTHONPATH", "")]
    one = dict.fromkeys(THREADS, "1")
    env = os.environ | one | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # A folder of its own: simulators write their logs where they are started.
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [str(python), "-m", f"gates.{order.library}_run"], cwd=folder, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.add(process)
        out, err = process.communicate(json.dumps(dict(order.order)))
        started.discard(process)
    if process.returncode != 0:
        last = [line for line in err.splitlines() if line.strip()][-1:]
        failure = f"exit {process.returncode}: {' '.join(last)}"
        return Run(order.row, order.library, order.order, failure=failure)
    curve: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
    return Run(order.row, order.library, order.order, curve)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a results file; a last line that was cut short is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a results file, below a last line that was cut short."""
    with path.open("a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record).encode() + b"\n")

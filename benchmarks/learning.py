"""Does every algorithm learn, on several seeds: ``python benchmarks/learning.py``.

Each row is an algorithm on a task with the hyperparameters of ``configs/`` (those of a control),
trained to a budget of steps by hpcpod, and by stable-baselines3 where it has the algorithm: the
same seeds, steps, environments and hyperparameters. On the way and at the end the deterministic
policy is scored on the same 20 episodes. A row passes when the interquartile mean over the seeds
of the score *at the end* reaches the task's target; "below" the peer means below its 95 %
bootstrap interval. Seconds are those of training alone, on one thread.

All of it takes about two and a half hours on two cores, the classic tasks (``--rows classic``)
twenty minutes of them. With ``--json`` an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from contenders.venvs import python_of
from gates.rows import ROWS
from gates.table import LIBRARIES, OURS, PEER, Run, render

HERE = Path(__file__).parent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def main() -> None:
    options = parse(sys.argv[1:])
    known = read(options.json) if options.json else []
    wanted = list(orders(options))
    if not options.report:
        done = [run for run in known if not run.failure]
        missing = [order for order in wanted if not any(same(run, order) for run in done)]
        try:
            for run in measure(missing, options):
                known.append(run)
                if options.json:
                    append(options.json, run)
        except KeyboardInterrupt:
            print("interrupted: this is what there is", file=sys.stderr)
    print(render(latest(known, wanted)))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ", ".join(ROWS)
    parser.add_argument(
        "--rows", type=_rows, default=list(ROWS),
        help=f"names or beginnings or families (classic, mujoco), comma-separated: {names}",
    )  # fmt: skip
    parser.add_argument("--libraries", type=_libraries, default=list(LIBRARIES))
    parser.add_argument("--seeds", type=int, default=5, help="1 to this number (default: 5)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes at once (default: cores)"
    )
    parser.add_argument("--pipeline", action="store_true", help="hpcpod's with pod.pipeline")
    parser.add_argument("--budget", type=float, default=1.0, help="factor of all steps")
    parser.add_argument("--quick", action="store_true", help="2 seeds, a tenth of the steps")
    parser.add_argument("--json", type=Path, metavar="OUT", help="append each run, a line each")
    parser.add_argument("--report", action="store_true", help="train nothing: the tables of OUT")
    parser.add_argument("--sb3-python", type=Path, help="a Python that has stable-baselines3")
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".venvs", help="where one is made, if none is given"
    )
    options = parser.parse_args(arguments)
    if options.report and options.json is None:
        parser.error("--report prints the tables of a file: say which by --json OUT")
    if options.quick:
        options.seeds, options.budget = min(2, options.seeds), 0.1 * options.budget
    return options


def _rows(text: str) -> list[str]:
    found = [
        name
        for name, row in ROWS.items()
        if any(row.family == word or name.startswith(word) for word in text.split(","))
    ]
    for word in text.split(","):
        if not any(ROWS[name].family == word or name.startswith(word) for name in found):
            raise argparse.ArgumentTypeError(f"{word} is none of classic, mujoco, {list(ROWS)}")
    return found


def _libraries(text: str) -> list[str]:
    for word in text.split(","):
        if word not in LIBRARIES:
            raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(LIBRARIES)}")
    return text.split(",")


def orders(options: argparse.Namespace) -> Iterator[Run]:
    """Every run that is asked for, without its curve, row by row."""
    for name in options.rows:
        row = ROWS[name]
        for seed in range(1, options.seeds + 1):
            for library in options.libraries:
                order = row.order(seed, options.budget, options.quick)
                if library == OURS:
                    yield Run(
                        name, library, order | ({"pipeline": True} if options.pipeline else {})
                    )
                elif row.peer:
                    yield Run(name, library, order)


def same(one: Run, other: Run) -> bool:
    """Whether both were asked for the same: a changed hyperparameter makes another run."""
    return (one.row, one.library, one.order) == (other.row, other.library, other.order)


def latest(runs: list[Run], wanted: list[Run]) -> list[Run]:
    """Of each run that is asked for the last that there is."""
    found = [[run for run in runs if same(run, order)][-1:] for order in wanted]
    return [run for each in found for run in each]


def read(path: Path) -> list[Run]:
    """The runs of a results file; a last line that was cut short is left out."""
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            runs.append(Run(**json.loads(line)))
    return runs


def append(path: Path, run: Run) -> None:
    """Add a run to a results file, below a last line that was cut short."""
    with path.open("a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(run.json()).encode() + b"\n")


def measure(missing: list[Run], options: argparse.Namespace) -> Iterator[Run]:
    """Train what is missing, ``jobs`` processes at once; what ends first comes first."""
    pythons = {OURS: Path(sys.executable)}
    if any(order.library == PEER for order in missing):
        pythons[PEER] = options.sb3_python or python_of("sb3", options.venvs)
    started: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(options.jobs) as pool:
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
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
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


if __name__ == "__main__":
    main()

"""The speed of a run folder: ``python benchmarks/store.py [--folder DIR]``, in two minutes.

Give a folder on the filesystem that the run will use: the local disk says little about
Lustre or NFS. Each number is one process's, unless it says how many write at once.

The rates use a fold that only counts, so that they measure storage; the merge of 1,000
reports is the real one, with every decision of the tournament.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import overhead

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.resolved import Resolved
from hpcpod.records.records import Checkpoint, Document, Json, Owner, Report
from hpcpod.run.launch import create_run
from hpcpod.storage.board import writer_id
from hpcpod.storage.disk import Disk
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules

Fold = Callable[[Document, list[Report]], Document]


def order(writer: int, number: int) -> str:
    return f"p{writer:04d}-{number:05d}-0"


def report(writer: int, number: int) -> Report:
    """A report of usual size: 32 episodes and a dozen metrics."""
    returns = tuple(float(writer % 97 + n) for n in range(32))
    metrics = {f"metric_{n}": n / 7 for n in range(12)}
    checkpoint = Checkpoint("ab" * 32, number * 20_000)
    name = order(writer, number)
    return Report(
        name, f"p{writer:04d}", number, 0, "1_1", returns, (), checkpoint, metrics=metrics
    )


def board(pods: int) -> Document:
    """A document as big as a board of this many pods: about 1.5 kB each."""
    returns = [n / 3 for n in range(32)]
    evaluation: Json = {"round": 1, "returns": returns, "checkpoint": "ab" * 32}
    row: Json = {"algorithm": "ppo", "seed": 1, "history": [evaluation, evaluation]}
    return {"run": {"env_steps": 0}, "pods": {f"p{n:04d}": {**row, "id": n} for n in range(pods)}}


def fold(document: Document, reports: list[Report]) -> Document:
    """The least that a merge does: each report changes its pod's row."""
    pods = {**document["pods"]}
    for one in reports:
        pods[one.pod] = {**pods.get(one.pod, {}), "order": one.order, "returns": one.returns[0]}
    steps = document["run"]["env_steps"] + len(reports)
    return {"run": {"env_steps": steps}, "pods": pods}


def milliseconds(work: Callable[[int], object], times: int) -> str:
    """The median and the 95th percentile of some calls."""
    spent = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        spent.append((time.perf_counter() - started) * 1e3)
    return f"{statistics.median(spent):8.2f} ms   (95 %: {np.percentile(spent, 95):.2f})"


def merge_rate(folder: Path, writers: int, seconds: float, fold: Fold = fold) -> tuple[int, int]:
    """Reports merged and generations published while so many processes report all the time."""
    run = RunFolder.create(folder / f"rate-{writers}", {})
    run.board.publish(-1, {}, board(writers), writer_id())
    until = time.monotonic() + seconds
    pids = []
    for writer in range(writers):
        pid = os.fork()
        if pid == 0:
            mine = RunFolder.open(run.path)
            number = 0
            while time.monotonic() < until:
                mine.reports.publish(report(writer, number))
                number += 1
            os._exit(0)
        pids.append(pid)
    following = [0] * writers
    merged = generations = 0
    while time.monotonic() < until:
        reports = []
        for writer in range(writers):
            found = run.reports.read(order(writer, following[writer]))
            if found is not None:
                reports.append(found)
                following[writer] += 1
        if reports:
            number, old = run.board.read() or (-1, {})
            run.board.publish(number, old, fold(old, reports), writer_id())
            merged += len(reports)
            generations += 1
    for pid in pids:
        os.waitpid(pid, 0)
    return merged, generations


class Unsynced(Disk):
    """For what is only prepared, not measured."""

    def write_new(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """As ``Disk``, and never waits."""
        super().write_new(path, data, durable=False)

    def sync(self, folder: Path) -> None:
        """Nothing."""


def merge_at_once(folder: Path, count: int) -> None:
    """How long one real merge of many reports takes, with all that the tournament decides."""
    config = from_mapping(
        {
            "name": "merge",
            "env": {"id": "CartPole-v1"},
            "population": {"pods": {"max": count}},
            "agents": {"ppo": {"learning_rate": {"log_uniform": [1.0e-5, 1.0e-2]}}},
        }
    )
    resolved = Resolved(config, resolve_algorithms(config))
    rules = Rules.of(config, resolved.algorithms)
    run = create_run(resolved, folder)
    prepared = RunFolder.open(run.path, Unsynced())
    for turn in (1, 2):  # the first round is the warm-up; in the second pods are judged
        for one in orders(read_board(run)):
            prepared.reports.publish(
                replace(report(int(one.pod[1:]), turn), order=one.id, attempt=one.attempt)
            )
        started = time.perf_counter()
        board = merge(run, rules)
        spent = (time.perf_counter() - started) * 1e3
        copies = sum(pod.cause == "copy" for pod in board.pods.values())
        what = f"merge of {count:,} reports, round {turn}"
        print(f"{what:39}{spent:8.0f} ms   ({copies} copies decided)")


def single(folder: Path) -> None:
    """One process, one call after the other."""
    run = RunFolder.create(folder / "single", {})
    random = np.random.default_rng(0)
    layers = {f"layer.{n}": random.normal(size=(256, 40)).astype(np.float32) for n in range(50)}

    def put(number: int) -> None:
        run.blobs.put(layers, {"number": number})

    print(
        "claim                      ",
        milliseconds(lambda n: run.claims.take(order(1, n), OWNER), 200),
    )
    print("report                     ", milliseconds(lambda n: publish(run, n), 200))
    print("2 MB blob                  ", milliseconds(put, 50))
    whole = board(1000)
    run.board.publish(-1, {}, whole, writer_id())
    size = run.board.path(0).stat().st_size / 1e6
    print(
        f"board of 1,000 pods, {size:.1f} MB, read anew",
        milliseconds(lambda _: RunFolder.open(run.path).board.read(), 20),
    )

    def step(number: int) -> None:
        base, old = run.board.read() or (-1, {})
        assert run.board.publish(base, old, fold(old, [report(number, 1)]), writer_id())

    print("  read, change a row, publish", milliseconds(step, 100))
    print("  read anew through its deltas", milliseconds(lambda _: read_anew(run), 20))


OWNER = Owner("1_1", "1", "node1", 1)


def publish(run: RunFolder, number: int) -> None:
    run.reports.publish(report(0, number))


def read_anew(run: RunFolder) -> None:
    RunFolder.open(run.path).board.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to measure; a temporary folder if unset")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each rate (default: 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="hpcpod-store-") as name:
        folder = Path(name)
        single(folder)
        merge_at_once(folder, 1000)
        for writers in (1, 16, 64):
            merged, generations = merge_rate(folder, writers, arguments.seconds)
            rate = merged / arguments.seconds
            print(f"{writers:2d} writers, one merging     {rate:8.0f} reports/s", end="")
            print(f"   ({generations / arguments.seconds:.0f} generations/s)")
        print("a real round beside its training and evaluating (see overhead.py):")
        for hidden in overhead.HIDDEN:
            overhead.measure(name, hidden, 60)


if __name__ == "__main__":
    main()

"""The cost of a round beside training: ``python benchmarks/overhead.py``, in about two minutes.

A real run on this machine with one slot and one pod, in rounds as short as they can be. From
each round's wall time, from board to board, its training and evaluating are taken away: what
is left is the claim, the set-up (agent, checkpoint read, environment reset), the checkpoint,
the report and the merge.

Then the cost of curves: rounds with and without them take turns in one process. Printed is the
share of a round's training that is spent in the recorder, which a clock around it measures, and
the steps of both for a second of processor time, which other processes change least.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest import mock

import hpcpod
from hpcpod.config.loader import from_mapping
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.recorder import Recorder
from hpcpod.pod.round import Watch
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.tournament.merge import read_board

HIDDEN = 64, 284
"""Units of networks whose checkpoints have 0.14 and 2 MB."""


def config(hidden: int, rounds: int) -> dict[str, object]:
    return {
        "name": f"overhead-{hidden}",
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "population": {"pods": {"min": 1, "max": 1}, "controls": 0},
        "round": {"env_steps": 256, "episodes": 2},
        "agents": {"ppo": {"hidden": hidden, "horizon": 32, "epochs": 1}},
        "stop": {"rounds": rounds, "finalists": 1, "confirm_episodes": 2},
        "cluster": {"slots": 1},
    }


def measure(folder: str, hidden: int, rounds: int) -> None:
    run = hpcpod.launch(config(hidden, rounds), runs=folder)
    run.wait(timeout=300, poll=5.0)
    # Generation 0 is the launch, 1 the slot's first claim, k + 1 the report of round k.
    board = run.folder.board
    files = itertools.takewhile(Path.exists, map(board.path, itertools.count(1)))
    times = [json.loads(file.read_text())["payload"]["time"] for file in files]
    between, inside = [], []
    for number in range(2, rounds):
        report = run.folder.reports.read(f"p0001-{number:05d}-1")
        assert report is not None
        work = report.train_seconds + report.evaluate_seconds
        between.append(1e3 * (times[number] - times[number - 1] - work))
        inside.append(1e3 * (report.wall_seconds - work))
    size = run.folder.blobs.path(run.leaderboard()[0].checkpoint.core).stat().st_size / 1e6
    low, middle, high = statistics.quantiles(between, n=4)
    print(
        f"checkpoint {size:5.2f} MB: {middle:6.1f} ms a round (quartiles {low:.1f} to {high:.1f}),"
        f" of which {statistics.median(inside):.1f} in the training process"
    )


CURVES = {"ppo": ("CartPole-v1", 40_000), "sac": ("Pendulum-v1", 2_000)}
"""Tasks of cheap steps, in which a row costs most, and the steps of a round of some ten seconds."""


def measure_curves(folder: str, algorithm: str, turns: int) -> None:
    clock, pods = [0.0], {}
    task, steps = CURVES[algorithm]
    for rows in (200, 0):
        run = create_run(
            check(
                from_mapping(
                    {
                        "env": {"id": task, "num_envs": 8},
                        "name": f"{algorithm}-{rows}",
                        "population": {
                            "pods": {"min": 1, "max": 1},
                            "algorithms": {algorithm: 1},
                        },
                        "round": {"env_steps": steps, "episodes": 2},
                        "pod": {"curve_rows": rows},
                        "stop": {"rounds": turns},
                    }
                )
            ).resolved,
            Path(folder),
        )
        [state] = read_board(run).pods.values()
        assert state.birth is not None
        pods[rows] = prepare(run), state.birth
    shares: list[float] = []
    rates: dict[int, list[float]] = {200: [], 0: []}
    with ExitStack() as patches:
        for name in ("look", "write", "seal"):
            clocked = timed(getattr(Recorder, name), clock)
            patches.enter_context(mock.patch.object(Recorder, name, clocked))
        for turn in range(turns):
            for rows in (200, 0) if turn % 2 else (0, 200):
                pod, birth = pods[rows]
                clock[0], began = 0.0, time.process_time()
                report = pod.train(birth, "here", Watch())
                rates[rows].append(report.trained_steps / (time.process_time() - began))
                shares += [100 * clock[0] / report.train_seconds] if rows else []
                onward = replace(birth, round=birth.round + 1, checkpoint=report.checkpoint)
                pods[rows] = pod, onward
    with_curves, without = (statistics.median(rates[rows]) for rows in (200, 0))
    ratios = [one / other for one, other in zip(rates[200], rates[0], strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    print(
        f"{task}, {algorithm}: curves take {statistics.median(shares):.2f} % of a round's training"
        f" (most {max(shares):.2f} %); {with_curves:.0f} steps/s with, {without:.0f} without them,"
        f" ratio {ratio:.3f} (quartiles {low:.3f} to {high:.3f}); {turns} rounds each of {steps}"
        " steps"
    )


def timed(method: Callable[..., None], clock: list[float]) -> Callable[..., None]:
    """A method that adds its seconds to a clock; those of methods in it count twice."""

    def clocked(*arguments: object, **named: object) -> None:
        began = time.perf_counter()
        method(*arguments, **named)
        clock[0] += time.perf_counter() - began

    return clocked


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to measure; a temporary folder if unset")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each (default: 60)")
    parser.add_argument("--turns", type=int, default=8, help="rounds for curves (default: 8)")
    parser.add_argument("--curves", action="store_true", help="measure curves alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="hpcpod-overhead-") as folder:
        for hidden in () if arguments.curves else HIDDEN:
            measure(folder, hidden, arguments.rounds)
        for algorithm in CURVES:
            measure_curves(folder, algorithm, arguments.turns)


if __name__ == "__main__":
    main()

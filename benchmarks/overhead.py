"""The cost of a round beside training: ``python benchmarks/overhead.py``, in about a minute.

A real run on this machine with one slot and one pod, in rounds as short as they can be. From
each round's wall time, from board to board, its training and evaluating are taken away: what
is left is the claim, the set-up (agent, checkpoint read, environment reset), the checkpoint,
the report and the merge.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path

import hpcpod

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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to measure; a temporary folder if unset")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each (default: 60)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="hpcpod-overhead-") as folder:
        for hidden in HIDDEN:
            measure(folder, hidden, arguments.rounds)


if __name__ == "__main__":
    main()

"""The delay of training by scoring: ``python benchmarks/scoring.py``, in about ten minutes.

Real runs on this machine, of one pod in one slot of two cores, scored after each round in turn, or
beside training. Of six rounds three are scored and three are not, so that both are measured
within seconds of each other: neighbours on a shared machine change by the minute. A round's time
goes from its checkpoint to the next one; the first of each three is left out. Each slowdown is the
median of all such pairs of threes.

20,000 steps and 32 episodes a round are the defaults; where that takes minutes, both are cut by
the same factor, which makes scoring dearer: fewer episodes are one batch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import hpcpod
from hpcpod.agents.base import Acting
from hpcpod.pod.evaluator import PanelEvaluator, never

BLOCK = 3
"""Rounds in a row that are scored, or not."""


class Sometimes(PanelEvaluator):
    """Plays the episodes of some rounds only."""

    def evaluate(
        self,
        agent: Acting,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        _seed, kind, number = panel
        if kind == "panel" and not is_scored(int(number)):
            return (0.0,) * episodes
        return super().evaluate(agent, *panel, episodes=episodes, should_stop=should_stop)


def is_scored(round_number: int) -> bool:
    return (round_number - 1) // BLOCK % 2 == 0


@dataclass(frozen=True)
class Task:
    """What is trained."""

    algorithm: str
    env: dict[str, object]
    agent: dict[str, object] = field(default_factory=dict)
    cut: int = 1
    """By how much a round is shorter than the default."""
    pairs: int = 2
    """Of a run: threes of rounds that are scored, each with three that are not."""


PENDULUM: dict[str, object] = {"id": "Pendulum-v1", "num_envs": 4}
CHEETAH: dict[str, object] = {"id": "HalfCheetah-v5", "num_envs": 4, "backend": "mujoco"}
TASKS = {  # the settings of configs/
    "ppo CartPole": Task("ppo", {"id": "CartPole-v1", "num_envs": 8}, pairs=5),
    "ppo Pendulum": Task(
        "ppo", PENDULUM,
        {"learning_rate": 1e-3, "gamma": 0.9, "horizon": 1024, "normalize_obs": False,
         "normalize_returns": False},
        pairs=4,
    ),
    "sac Pendulum": Task(
        "sac", PENDULUM,
        {
            "learning_rate": 1e-3, "gamma": 0.98, "tau": 0.02, "hidden": 64, "horizon": 8,
            "updates_per_step": 0.5,
        },
        cut=4,
    ),
    "ppo HalfCheetah": Task(
        "ppo", CHEETAH, {"horizon": 512, "minibatch_size": 64, "epochs": 10}, cut=2
    ),
    "sac HalfCheetah": Task(
        "sac", CHEETAH, {"horizon": 4, "learning_starts": 200}, cut=16
    ),
}  # fmt: skip


def config(name: str, task: Task, beside: bool) -> dict[str, Any]:
    return {
        "name": name,
        "env": task.env,
        "population": {
            "pods": {"min": 1, "max": 1}, "controls": 0, "algorithms": {task.algorithm: 1},
        },
        "round": {"env_steps": 20_000 // task.cut, "episodes": 32 // task.cut},
        "agents": {task.algorithm: task.agent},
        "pod": {"evaluator": "scoring:Sometimes", "score_beside": beside},
        "stop": {"rounds": 2 * BLOCK * (task.pairs + 1), "finalists": 1, "confirm_episodes": 2},
        "resources": {"cpus_per_pod": 2},
        "cluster": {"slots": 1},
    }  # fmt: skip


def periods(folder: str, name: str, task: Task, beside: bool) -> list[float]:
    """Seconds from the checkpoint of each round to that of the next."""
    run = hpcpod.launch(config(name, task, beside), runs=folder)
    run.wait(timeout=900, poll=1.0)
    ends = []
    for number in range(1, run.board().rounds + 1):
        report = run.folder.reports.read(f"p0001-{number:05d}-1")
        assert report is not None and report.checkpoint is not None
        ends.append(run.folder.blobs.path(report.checkpoint.core).stat().st_mtime)
    return [after - before for before, after in pairwise(ends)]


def blocks(spent: list[float]) -> list[tuple[float, float]]:
    """Median seconds with scoring and without, of neighbours; the first two (start) left out."""
    starts = range(2 * BLOCK, len(spent) - 2 * BLOCK + 2, 2 * BLOCK)
    threes = [(spent[s + 1 : s + BLOCK], spent[s + BLOCK + 1 : s + 2 * BLOCK]) for s in starts]
    return [(statistics.median(on), statistics.median(off)) for on, off in threes]


def compare(folder: str, name: str, task: Task, times: int) -> None:
    steps, delays, rates = 20_000 // task.cut, [], []
    for beside in (False, True):
        pairs: list[tuple[float, float]] = []
        for turn in range(times):
            pairs += blocks(periods(folder, f"{name} {beside} {turn}", task, beside))
        ratios = [1 - off / on for on, off in pairs]
        middle = f"{statistics.median(ratios):.1%}"
        delays.append(f"{middle} ({min(ratios):.1%} to {max(ratios):.1%})")
        rates.append(steps / statistics.median(off for _, off in pairs))
    rate = statistics.median(rates)
    print(f"| {name} | {steps} | {rate:,.0f} | {' | '.join(delays)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--times", type=int, default=1, help="runs of each (default: 1)")
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)  # where the slots' processes find the evaluator
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    print("| task | steps a round | steps/s unscored | slower, in turn | slower, beside |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="hpcpod-scoring-") as folder:
        for name in arguments.tasks:
            compare(folder, name, TASKS[name], arguments.times)


if __name__ == "__main__":
    main()

"""Environment steps/s with ``pod.pipeline`` off and on: ``python benchmarks/pipeline.py``.

About six minutes. Off and on take turns, window by window, in one process (whose collecting
process sleeps meanwhile), so what disturbs the machine meets both; rates are medians over the
windows, the ratio is the median of the windows' own ratios, "best" is that of the best windows,
and "other cores" what the rest of the machine used meanwhile. A pipeline needs a second core: on
one that somebody else uses it gains nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from contenders.hpcpod import agent_of, env_of, known_settings, workers_of
from contenders.meter import Meter, cpu_times
from contenders.process import Task
from contenders.rows import ROWS, Row

from hpcpod.agents.base import Agent, Buffer
from hpcpod.envs.threads import set_env_threads
from hpcpod.envs.vec_env import random_seeds
from hpcpod.pod.ipc.commands import CALM
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Pipeline, Turns

CORES = 2
_SAC = replace(ROWS["sac-halfcheetah"], backend="mujoco", cores=CORES)
MEASURED = {
    "ppo-halfcheetah": ROWS["ppo-halfcheetah"],
    "ppo-ant": ROWS["ppo-ant"],
    "sac-halfcheetah": _SAC,
    "sac-ant": replace(_SAC, env="Ant-v5"),
    "sac-ant-16": replace(
        _SAC, env="Ant-v5", num_envs=16, updates=32
    ),  # one update for each 8 steps
    "ppo-pendulum": replace(ROWS["ppo-pendulum"], cores=CORES),
}
"""By name; 16 environments for PPO on MuJoCo, 8 on Pendulum, one for SAC but in the last row."""


@dataclass
class Side:
    """A training, with or without a pipeline."""

    worker: Turns | Pipeline
    agent: Agent
    buffer: Buffer
    learner: Learner
    rates: list[float] = field(default_factory=list)

    def iterate(self) -> int:
        counted, _ = self.worker.iterate(self.agent, self.buffer, self.learner, left=10**12)
        return counted

    def measure(self, seconds: float) -> None:
        self.iterate()  # what was collected ahead was collected while nobody else was at work
        began, steps = time.perf_counter(), 0
        while time.perf_counter() < began + seconds:
            steps += self.iterate()
        self.rates.append(steps / (time.perf_counter() - began))


@contextmanager
def side(row: Row, words: frozenset[str]) -> Iterator[Side]:
    """Warm: learning has begun."""
    task = Task(row, 1, words, Meter(1.0), [])
    env = env_of(task)
    agent, workers = agent_of(task, env), workers_of(task)
    worker = workers.make(env, row.algorithm, known_settings(row))
    worker.reset(random_seeds("benchmark", count=row.num_envs))
    made = Side(worker, agent, agent.make_buffer(), Learner(agent))
    for _ in range(2 + (0 if row.epochs else 1000 // row.rollout)):
        made.iterate()
    yield made
    workers.close()
    env.close()


def compare(name: str, medium: bool, rounds: int, seconds: float) -> None:
    """Print a row of the table."""
    words = frozenset({"medium"} if medium else ())
    torch.set_float32_matmul_precision("medium" if medium else "highest")
    with side(MEASURED[name], words) as off, side(MEASURED[name], words | {"pipeline"}) as on:
        before, began = cpu_times(), time.perf_counter()
        for _ in range(rounds):
            for each in (off, on):
                each.measure(seconds)
        after, wall = cpu_times(), time.perf_counter() - began
    other = "?"
    if before is not None and after is not None:
        used = after.machine - before.machine - (after.own - before.own)
        other = f"{max(0.0, used / wall):.1f}"
    ratio = statistics.median(b / a for a, b in zip(off.rates, on.rates, strict=True))
    rates = [statistics.median(each.rates) for each in (off, on)]
    print(
        f"| {name} | {'medium' if medium else 'float32'} | {rates[0]:,.0f} | {rates[1]:,.0f} |"
        f" {ratio:.2f}x | {max(on.rates) / max(off.rates):.2f}x | {other} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", nargs="+", choices=list(MEASURED), default=list(MEASURED))
    parser.add_argument("--rounds", type=int, default=7, help="windows of each (default: 7)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a window (default: 1.5)")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    os.environ.update(CALM)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    set_env_threads(CORES)
    print("| row | products | off | on | on / off | best | other cores |")
    print("|---|---|---|---|---|---|---|")
    for name in options.rows:
        for medium in (False, True):
            compare(name, medium, options.rounds, options.seconds)


if __name__ == "__main__":
    main()

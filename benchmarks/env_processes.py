"""Environments in several processes: ``python benchmarks/env_processes.py``, in about 90 s.

Environment steps per second of wall time, random actions, episodes ending as they come: of one
process and of two (``env.processes``), and of gymnasium's SyncVectorEnv and AsyncVectorEnv, which
has a process for each environment. The columns take turns, and each figure is the median of seven.
In brackets: processor time of all processes for an environment step, which other work on the
machine changes less than wall time.

Last, what a step of the whole batch costs beside its environments: wall and processor time of one
whose environments do nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import psutil
import torch

from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Discrete, VecEnv, random_seeds, tensor_form

ROUNDS = 7
Floats = npt.NDArray[np.float32]
Stepper = Callable[[int], None]


class Arithmetic(gym.Env[Floats, int]):
    """A step is so many turns of a loop in Python; an episode is 200 steps."""

    def __init__(self, turns: int) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space: Any = gym.spaces.Discrete(2)
        self._turns = turns
        self._steps = 0
        self._obs = np.zeros(4, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._obs, {}

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        x = 0.5
        for _ in range(self._turns):
            x = 3.9 * x * (1.0 - x)
        self._steps += 1
        return self._obs, x, False, self._steps >= 200, {}


OURS = "env_processes:Arithmetic"
TASKS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "1 ms of Python": (OURS, {"turns": 37_000}, (8,)),
    "CartPole-v1": ("CartPole-v1", {}, (16, 64)),
    "HalfCheetah-v5": ("HalfCheetah-v5", {}, (8, 32)),
}


def columns(env_id: str, kwargs: dict[str, Any], n: int) -> dict[str, tuple[Stepper, Any]]:
    """By column, what makes so many steps of the batch, and what is to be closed."""

    def one() -> gym.Env[Any, Any]:
        return Arithmetic(**kwargs) if env_id == OURS else gym.make(env_id, **kwargs)

    found = {
        f"{w} process{'es' * (w > 1)}": ours(
            make_env(env_id, n, "gymnasium", kwargs=kwargs, processes=w)
        )
        for w in (1, 2)
    }
    found["Sync"] = theirs(gym.vector.SyncVectorEnv([one] * n))
    found["Async"] = theirs(gym.vector.AsyncVectorEnv([one] * n, shared_memory=True))
    return found


def ours(env: VecEnv) -> tuple[Stepper, Any]:
    n, space = env.spec.num_envs, env.spec.action
    shape = (16, n, *tensor_form(space)[0])
    actions = (
        torch.randint(space.n, shape) if isinstance(space, Discrete) else torch.rand(shape) * 2 - 1
    )
    env.reset(random_seeds("benchmark", count=n))

    def step(times: int) -> None:
        for i in range(times):
            env.step(actions[i % 16])

    return step, env


def theirs(env: gym.vector.VectorEnv) -> tuple[Stepper, Any]:
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(16)]
    env.reset(seed=0)

    def step(times: int) -> None:
        for i in range(times):
            env.step(actions[i % 16])

    return step, env


def processor_seconds() -> float:
    """Of this process and all that it has started."""
    this = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in [this, *this.children(recursive=True)])


def seconds_per_step(
    made: dict[str, tuple[Stepper, Any]], seconds: float
) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of one step of the batch, in each column."""
    times = {}
    for name, (step, _) in made.items():
        step(10)
        began = time.perf_counter()
        step(10)
        times[name] = max(10, int(10 * seconds / (time.perf_counter() - began)))
    wall: dict[str, list[float]] = {name: [] for name in made}
    used = dict.fromkeys(made, 0.0)
    for _ in range(ROUNDS):
        for name, (step, _) in made.items():
            before, began = processor_seconds(), time.perf_counter()
            step(times[name])
            wall[name].append((time.perf_counter() - began) / times[name])
            used[name] += (processor_seconds() - before) / (ROUNDS * times[name])
    for _, env in made.values():
        env.close()
    return {name: (statistics.median(wall[name]), used[name]) for name in made}


def _cell(figure: float, processor: float) -> str:
    return f"{figure:,.0f} ({processor * 1e6:,.0f} µs)".rjust(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.25, help="a measurement (default: 0.25)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning")
    names = ("1 process", "2 processes", "Sync", "Async")
    print(f"{'env steps/s':16}{'N':>4}" + "".join(f"{name:>20}" for name in names))
    for task, (env_id, kwargs, sizes) in TASKS.items():
        for n in sizes:
            found = seconds_per_step(columns(env_id, kwargs, n), options.seconds)
            row = (_cell(n / found[name][0], found[name][1] / n) for name in names)
            print(f"{task:16}{n:4}{''.join(row)}", flush=True)
    print(f"\n{'µs of a step':16}{'N':>4}")
    for n in (2, 16):
        found = seconds_per_step(columns(OURS, {"turns": 0}, n), options.seconds)
        row = (_cell(found[name][0] * 1e6, found[name][1]) for name in names)
        print(f"{'nothing to do':16}{n:4}{''.join(row)}", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

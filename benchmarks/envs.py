"""Environment steps per second of every way to step a task: ``python benchmarks/envs.py``.

Wall time, on ``--threads`` threads or processes; the best of several rounds in which the ways take
turns, for neighbours on a shared machine spoil single ones. Of hpcpod:

- *torch*: backend torch, one thread. *mujoco*: backend mujoco. *gymnasium*: backend gymnasium, a
  loop in this process. *processes*: the same in ``--threads`` processes (``env.processes``).

Beside them, in the same run: gymnasium's own SyncVectorEnv, AsyncVectorEnv (a process for each
environment) and, of CartPole, its vector in NumPy; EnvPool, if it is installed (another version of
MuJoCo, another stream of random numbers: the same kind of work, not the very same); and for MuJoCo
the simulator alone (*raw*, see ``stepping/raw.py``) and its own pool (*batch*). MuJoCo's ways go
from the same states by the same actions, and no episode ends.

The last column is *mujoco* beside *raw*, by wall time and by processor time.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import gymnasium as gym
import torch
from stepping import raw
from stepping.ways import Way, Work, ours, theirs

from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.make import make_env
from hpcpod.envs.mujoco.env import MujocoVecEnv
from hpcpod.envs.mujoco.tasks import TASKS
from hpcpod.envs.threads import set_env_threads
from hpcpod.envs.torch_envs import CLASSIC, TorchVecEnv

ORDER = (
    "torch", "mujoco", "gymnasium", "processes",
    "Sync", "Async", "NumPy", "EnvPool", "raw", "batch",
)  # fmt: skip
SIZES = (1, 16, 256, 1024, 4096, 16384)
DEFAULT = ("CartPole-v1", "Pendulum-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5")

MOST_OBJECTS = 256
"""Environments that are one Python object each: their rate does not grow any more."""
MOST_PROCESSES = 16
"""Environments that are one process each."""
MOST_COPIES = 4096
"""MuJoCo's simulations that fit into memory more than once."""


@dataclass
class Best:
    """The least seconds for a step of the batch."""

    wall: float = float("inf")
    processor: float = float("inf")
    """Of all threads of this process."""

    def time(self, way: Way, times: int) -> None:
        """Take so many steps from the start."""
        way.begin()
        wall, processor = time.perf_counter(), time.process_time()
        way.go(times)
        self.wall = min(self.wall, (time.perf_counter() - wall) / times)
        self.processor = min(self.processor, (time.process_time() - processor) / times)


def endless(env_id: str) -> dict[str, object]:
    """Arguments with which no episode of MuJoCo's ends; others may."""
    if env_id not in TASKS:
        return {}
    arguments: dict[str, object] = {"max_episode_steps": 10**6}
    if hasattr(TASKS[env_id], "terminate_when_unhealthy"):
        arguments["terminate_when_unhealthy"] = False
    return arguments


def ways(env_id: str, n: int, threads: int) -> Iterator[tuple[str, Way]]:
    """Every way to step n of these, by the name of its column."""
    kwargs = endless(env_id)
    if env_id in TASKS:
        set_env_threads(threads)
        env = MujocoVecEnv(env_id, n, kwargs=kwargs)
        work = Work.of(env, kwargs, count=64)
        yield "mujoco", ours(work, env)
        yield "raw", raw.raw(work, env, threads)
        if n <= MOST_COPIES and (batch := raw.pool(work, env, threads)) is not None:
            yield "batch", batch
    else:
        torch_env = TorchVecEnv(env_id, n)
        work = Work.of(torch_env, kwargs, count=64)
        yield "torch", ours(work, torch_env)
    if n <= MOST_OBJECTS:
        yield "gymnasium", ours(work, PreprocessVecEnv(env_id, n, kwargs=kwargs))
        yield "Sync", theirs(work, "sync")
    if 2 <= n <= MOST_OBJECTS:
        several = make_env(env_id, n, "gymnasium", kwargs=kwargs, processes=min(threads, n))
        yield "processes", ours(work, several)
    if n <= MOST_PROCESSES:
        yield "Async", theirs(work, "async")
    if gym.spec(env_id).vector_entry_point is not None:
        yield "NumPy", theirs(work, "vector_entry_point")
    if n <= MOST_COPIES and importlib.util.find_spec("envpool") is not None:
        yield "EnvPool", ours(work, make_env(env_id, n, "envpool", kwargs=kwargs))


def measured(found: Mapping[str, Way], n: int, options: argparse.Namespace) -> dict[str, Best]:
    """By column, the best of the rounds.

    MuJoCo's ways take the same number of steps, for what they simulate gets harder; others as
    many as fit into the time.
    """
    times = {}
    for name, way in found.items():
        way.begin()
        way.go(2)
        began = time.perf_counter()
        way.go(2)
        times[name] = max(2, int(2 * options.seconds / (time.perf_counter() - began)))
    if "raw" in found:
        times = dict.fromkeys(times, max(2, min(64, times["raw"])))
    bests = {name: Best() for name in found}
    for _ in range(options.rounds):
        for name, way in found.items():
            bests[name].time(way, times[name])
    return bests


def row(env_id: str, n: int, options: argparse.Namespace) -> str:
    torch.set_num_threads(1)
    set_env_threads(options.threads)
    found = dict(ways(env_id, n, options.threads))
    bests = measured(found, n, options)
    for way in found.values():
        way.close()
    cells = [f"{n / bests[name].wall:,.0f}" if name in bests else "" for name in ORDER]
    share = ""
    if "raw" in bests:
        mine, bare = bests["mujoco"], bests["raw"]
        share = f"{bare.wall / mine.wall:.0%}, {bare.processor / mine.processor:.0%}"
    return f"| {env_id} | {n} | {' | '.join(cells)} | {share} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [*CLASSIC, *TASKS]
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help=f"of {', '.join(known)} (default: {len(DEFAULT)})"
    )
    parser.add_argument("--envs", nargs="+", type=int, default=SIZES, metavar="N")
    parser.add_argument("--threads", type=int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--seconds", type=float, default=0.3, help="a measurement (default: 0.3)")
    options = parser.parse_args()
    if unknown := set(options.ids) - set(known):
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    print(f"| task | N | {' | '.join(ORDER)} | of raw: wall, processor |")
    print("|---" * (len(ORDER) + 3) + "|")
    # Each row by a process of its own: after 16,384 simulations a process is too large to fork.
    for env_id in options.ids or DEFAULT:
        for n in options.envs:
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                print(process.submit(row, env_id, n, options).result(), flush=True)


if __name__ == "__main__":
    main()

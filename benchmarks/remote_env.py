"""The cost of another Python: ``python benchmarks/remote_env.py --python PATH``, in about 20 s.

One simulator in numpy (``countdowns.py``), whose step costs next to nothing, steps N environments
of 60 float32 and 8 actions: in this process, as a gymnasium VectorEnv by backend ``vector``, and
in a process of another Python, by ``env.python``. Both play the same episodes, which is checked.
They take turns by blocks of 20 steps. Each figure is the median of all steps, in microseconds,
with the first decile in brackets; the difference is that of a block's two medians. ``cpu`` is the
processor time of all processes for a step. ``--between`` has this process compute for as long
between two steps, as a policy does: then the other one has fallen asleep.

The floor of such a difference, on the same machine: an eventfd to another process and one back,
where both sleep, and a copy of the observations. Memory is kept as in a training process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import torch
from countdowns import Countdowns
from gymnasium.vector import AutoresetMode
from torch import Tensor

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.make import configured
from hpcpod.envs.vec_env import VecEnv
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.pod.ipc.commands import KEPT

SIZES = (64, 1024, 4096)
BLOCK = 20
SAME = 1200
"""Steps that are compared: all rows have ended in them."""


class Vector(gym.vector.VectorEnv[Any, Any, Any]):
    """The simulator as gymnasium has batches: its resets are late, too."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int) -> None:
        inf = np.inf
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-inf, inf, (Countdowns.num_obs,), np.float32)
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, (Countdowns.num_actions,), np.float32)
        self._task = Countdowns(num_envs)
        self._none = np.zeros((num_envs, Countdowns.num_actions), np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._task.reset_buf[:] = True
        return self._task.step(self._none)[0]["obs"], {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, reward, ended, extras = self._task.step(actions)
        late = extras["time_outs"]
        return obs["obs"], reward, ended & ~late, late, {}


def check_same(here: VecEnv, there: VecEnv, actions: Sequence[Tensor]) -> None:
    """See that both play the same episodes, bit by bit."""
    assert torch.equal(here.reset(), there.reset())
    ends = 0
    for t in range(SAME):
        own, other = (env.step(actions[t % len(actions)]) for env in (here, there))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(own, other, strict=True))
        ends += int((own.terminated | own.truncated).sum())
    assert ends >= here.spec.num_envs


def block(env: VecEnv, actions: Sequence[Tensor], between: float) -> list[float]:
    """Seconds of each of some steps, with so many seconds of other work before each."""
    seconds = []
    for t in range(BLOCK):
        busy_until = time.perf_counter() + between
        while time.perf_counter() < busy_until:
            pass
        began = time.perf_counter()
        env.step(actions[t % len(actions)])
        seconds.append(time.perf_counter() - began)
    return seconds


def processor_seconds() -> float:
    """Of this process and all that it has started."""
    this = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in [this, *this.children(recursive=True)])


def measure(envs: Sequence[VecEnv], seconds: float, between: float) -> str:
    """A row of the table."""
    generator = torch.Generator().manual_seed(0)
    shape = (envs[0].spec.num_envs, Countdowns.num_actions)
    actions = [torch.rand(shape, generator=generator) * 2 - 1 for _ in range(16)]
    check_same(envs[0], envs[1], actions)
    times: list[list[float]] = [[], []]
    medians: list[list[float]] = [[], []]
    used = [0.0, 0.0]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, env in enumerate(envs):
            block(env, actions[:2], between)  # whoever comes next finds the caches of the other
            before = processor_seconds()
            found = block(env, actions, between)
            used[i] += processor_seconds() - before - BLOCK * between
            times[i] += found
            medians[i].append(statistics.median(found))
    apart = [there - here for here, there in zip(*medians, strict=True)]
    cells = [*(_cell(each) for each in times), _cell(apart)]
    cpu = (f"{1e6 * used[i] / len(times[i]):10.0f}" for i in range(2))
    return "".join((*cells, *cpu))


def eventfds(count: int = 5000) -> list[float]:
    """Seconds of a word to another process and one back, each time."""
    go, done = os.eventfd(0), os.eventfd(0)
    child = os.fork()
    if child == 0:
        while os.eventfd_read(go) == 1:
            os.eventfd_write(done, 1)
        os._exit(0)
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        os.eventfd_write(go, 1)
        os.eventfd_read(done)
        seconds.append(time.perf_counter() - began)
    os.eventfd_write(go, 2)
    os.waitpid(child, 0)
    os.close(go)
    os.close(done)
    return seconds


def copies(num_envs: int, count: int = 1000) -> list[float]:
    """Seconds of a copy of the observations, each time."""
    source = np.ones((num_envs, Countdowns.num_obs), np.float32)
    target = np.zeros_like(source)
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - began)
    return seconds


def _cell(seconds: Sequence[float]) -> str:
    decile = statistics.quantiles(seconds, n=10)[0]
    return f"{1e6 * statistics.median(seconds):8.0f} ({1e6 * decile:.0f})".rjust(16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="that has numpy (default: this)")
    parser.add_argument("--seconds", type=float, default=5.0, help="a row (default: 5)")
    parser.add_argument("--between", type=float, default=0.0, help="µs between steps (default: 0)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="N (default: all)")
    options = parser.parse_args()
    if not KEPT.keys() <= os.environ.keys():  # read when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**KEPT, **os.environ})
    torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} at the beginning")
    print(f"eventfd forth and back: {_cell(eventfds()).strip()} µs")
    names = ("in process", "another Python", "difference", "copy of obs")
    print(
        f"{'N':>6}" + "".join(f"{n:>16}" for n in names[:3]) + "  cpu here  cpu both      one copy"
    )
    for n in options.sizes:
        config = EnvConfig("countdowns:Countdowns", n, "isaacgym", python=options.python)
        envs = (GymnasiumVectorEnv(Vector, n), configured(config, n, "cpu"))
        row = measure(envs, options.seconds, options.between / 1e6)
        print(f"{n:6}{row}{_cell(copies(n))}", flush=True)
        for env in envs:
            env.close()
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

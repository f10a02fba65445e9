"""Environment steps per second, by backend and size: ``python benchmarks/envs.py``, in about 4 min.

Random actions on one CPU thread, episodes ending as they come. The seconds are the processor's,
so that other work on the machine counts little. The columns take turns, and each figure is the
median of five; the peers are gymnasium's own SyncVectorEnv and, where it has one, its vectorised
NumPy environment.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import gymnasium as gym
import torch
from torch import Tensor

from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.torch_envs import CLASSIC, TorchVecEnv
from hpcpod.envs.vec_env import Discrete, VecEnv, random_seeds

SIZES = (1, 16, 256, 1024, 4096, 16384)
MOST_OBJECTS = 1024
"""Of environments that are one Python object each: their rate does not grow any more."""

Stepper = Callable[[int], None]


def steppers(env_id: str, n: int) -> dict[str, Stepper]:
    """By column, what makes so many steps of the batch."""
    torch_env = TorchVecEnv(env_id, n)
    actions = some_actions(torch_env, n)
    found = {"torch": ours(torch_env, actions)}
    if n <= MOST_OBJECTS:
        found["gymnasium"] = ours(PreprocessVecEnv(env_id, n), actions)
        found["its Sync"] = theirs(gym.make_vec(env_id, n, "sync"), actions)
    if gym.spec(env_id).vector_entry_point is not None:
        found["its NumPy"] = theirs(gym.make_vec(env_id, n, "vector_entry_point"), actions)
    return found


def some_actions(env: VecEnv, n: int) -> list[Tensor]:
    space = env.spec.action
    if isinstance(space, Discrete):
        return [torch.randint(space.n, (n,)) for _ in range(16)]
    return [torch.rand(n, 1) * 2 - 1 for _ in range(16)]


def ours(env: VecEnv, actions: list[Tensor]) -> Stepper:
    env.reset(random_seeds("benchmark", count=env.spec.num_envs))

    def step(times: int) -> None:
        for i in range(times):
            env.step(actions[i % 16])

    return step


def theirs(env: gym.vector.VectorEnv, actions: list[Tensor]) -> Stepper:
    env.reset(seed=0)
    arrays = [action.numpy() for action in actions]

    def step(times: int) -> None:
        for i in range(times):
            env.step(arrays[i % 16])

    return step


def rates(columns: dict[str, Stepper], n: int, seconds: float) -> dict[str, float]:
    """Environment steps per second of each column."""
    times = {}
    for name, step in columns.items():
        step(20)
        started = time.process_time()
        step(20)
        times[name] = max(20, int(20 * seconds / (time.process_time() - started)))
    found: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(5):
        for name, step in columns.items():
            started = time.process_time()
            step(times[name])
            found[name].append(n * times[name] / (time.process_time() - started))
    return {name: statistics.median(each) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="default: all that torch has")
    parser.add_argument("--seconds", type=float, default=0.3, help="a measurement (default: 0.3)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = ("torch", "gymnasium", "its Sync", "its NumPy")
    print(f"{'environment':26}{'N':>6}" + "".join(f"{name:>13}" for name in names))
    for env_id in options.ids or CLASSIC:
        for n in SIZES:
            found = rates(steppers(env_id, n), n, options.seconds)
            row = (f"{found[name]:13,.0f}" if name in found else f"{'-':>13}" for name in names)
            print(f"{env_id:26}{n:6}{''.join(row)}", flush=True)


if __name__ == "__main__":
    main()

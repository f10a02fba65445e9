"""Steps/s of the backend mujoco: ``python benchmarks/mujoco_envs.py``, in about five minutes.

Beside it, in the same run: the backend gymnasium, which is a loop; the raw simulator, which is
threads that call mj_step (and mj_rnePostConstraint where the task needs it) and nothing else, each
on simulations of its own and without waiting for each other; and MuJoCo's own pool,
``mujoco.batch`` (from MuJoCo 4 on), which can't do what the tasks need after the step. All of them
go from the same states by the same actions, so they simulate the very same: no episode ends.

Each number is the best of several rounds, in which they take turns. Neighbours on a shared
machine spoil wall times even so; the processor time that a step takes suffers less from them.
"""

from __future__ import annotations

import argparse
import importlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import torch

from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.mujoco.env import TASKS, MujocoVecEnv
from hpcpod.envs.vec_env import VecEnv, random_seeds, tensor_form

STEPS = 3200
"""Of all environments together, in one measurement."""

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


@dataclass(frozen=True)
class Work:
    """What all of them do."""

    env: MujocoVecEnv
    seeds: torch.Tensor
    actions: list[torch.Tensor]
    """For each step, [N, nu]."""

    @property
    def states(self) -> np.ndarray[Any, Any]:
        """Of the simulations at the start, float64 [N, mj_stateSize]."""
        self.env.reset(self.seeds)
        state = self.env.state()
        assert state is not None
        return state["physics"].numpy()

    @property
    def controls(self) -> list[np.ndarray[Any, Any]]:
        """The actions in the bounds of the actuators, float64."""
        model = self.env._task.model
        low, high = model.actuator_ctrlrange.T
        return [low + (a.double().numpy() + 1) / 2 * (high - low) for a in self.actions]


def work(env_id: str, num_envs: int, threads: int, steps: int) -> Work:
    env = MujocoVecEnv(env_id, num_envs, kwargs=endless(env_id), threads=threads)
    generator = torch.Generator().manual_seed(1)
    shape, _ = tensor_form(env.spec.action)
    actions = [torch.rand(num_envs, *shape, generator=generator) * 2 - 1 for _ in range(steps)]
    return Work(env, random_seeds("benchmark", count=num_envs), actions)


def endless(env_id: str) -> dict[str, object]:
    """Options with which no episode ends."""
    options: dict[str, object] = {"max_episode_steps": 10**6}
    if hasattr(TASKS[env_id], "terminate_when_unhealthy"):
        options["terminate_when_unhealthy"] = False
    return options


@dataclass
class Best:
    """The least of several rounds, in seconds."""

    wall: float = float("inf")
    processor: float = float("inf")
    """Of all threads."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around what is measured."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall = min(self.wall, time.perf_counter() - wall)
        self.processor = min(self.processor, time.process_time() - processor)


def stepped(env: VecEnv, todo: Work, best: Best) -> None:
    env.reset(todo.seeds)
    with best.timed():
        for action in todo.actions:
            env.step(action)


def raw(todo: Work, threads: int, best: Best) -> None:
    task = todo.env._task
    model, controls = task.model, todo.controls
    data = [mujoco.MjData(model) for _ in todo.states]
    for one, state in zip(data, todo.states, strict=True):
        mujoco.mj_setState(model, one, state, _STATE)

    def simulate(first: int) -> None:
        step, add_forces = mujoco.mj_step, mujoco.mj_rnePostConstraint
        own = list(range(first, len(data), threads))
        for control in controls:
            for i in own:
                data[i].ctrl[:] = control[i]
                step(model, data[i], task.frame_skip)
                if task.contact_forces:
                    add_forces(model, data[i])

    workers = [threading.Thread(target=simulate, args=(k,)) for k in range(threads)]
    with best.timed():
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def batch(todo: Work, threads: int, best: Best) -> None:
    try:
        module = importlib.import_module("mujoco.batch")
    except ImportError:
        return
    task, states, controls = todo.env._task, todo.states, todo.controls
    pool = module.Batch(task.model, len(states), threads)
    pool.state[:] = states
    qpos, qvel, ctrl = pool.bind("qpos"), pool.bind("qvel"), pool.bind("ctrl")
    with best.timed():
        for control in controls:
            ctrl[:] = control
            pool.step(nstep=task.frame_skip)
            qpos.copy(), qvel.copy()


def compare(env_id: str, num_envs: int, threads: int, rounds: int) -> None:
    torch.set_num_threads(1)
    todo = work(env_id, num_envs, threads, steps=STEPS // num_envs)
    gymnasium = PreprocessVecEnv(env_id, num_envs, kwargs=endless(env_id))
    ways: dict[str, Callable[[Best], None]] = {
        "gymnasium": lambda best: stepped(gymnasium, todo, best),
        "mujoco": lambda best: stepped(todo.env, todo, best),
        "raw": lambda best: raw(todo, threads, best),
        "batch": lambda best: batch(todo, threads, best),
    }
    bests = {name: Best() for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            way(bests[name])
    rates = [num_envs * len(todo.actions) / best.wall for best in bests.values()]
    ours, bare = bests["mujoco"], bests["raw"]
    print(
        f"| {env_id} | {num_envs} | {threads} | {' | '.join(f'{rate:,.0f}' for rate in rates)} |"
        f" {bare.wall / ours.wall:.0%} | {bare.processor / ours.processor:.0%} |",
        flush=True,
    )
    gymnasium.close()
    todo.env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    tasks = ["HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5"]
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=tasks)
    parser.add_argument("--envs", nargs="+", type=int, default=[16, 64, 256])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print("| task | N | threads | gymnasium | mujoco | raw | mujoco.batch | of raw | by CPU time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for env_id in arguments.tasks:
        for num_envs in arguments.envs:
            for threads in arguments.threads:
                compare(env_id, num_envs, threads, arguments.rounds)


if __name__ == "__main__":
    main()

"""The simulator alone: MuJoCo without observations, rewards, episodes or an interface."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import mujoco
import numpy as np

from hpcpod.envs.mujoco.env import MujocoVecEnv
from stepping.ways import Way, Work

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


def raw(work: Work, env: MujocoVecEnv, threads: int) -> Way:
    """Threads that call mj_step (and mj_rnePostConstraint where the task needs it) and nothing
    else, each on simulations of its own and without waiting for each other.

    The simulations are those of ``env``: twice as many would not fit where these just do.
    """
    task, data = env._task, env._simulations._data
    controls = _controls(work, task.model)

    def begin() -> None:
        for one, state in zip(data, _states(work, env), strict=True):
            mujoco.mj_setState(task.model, one, state, _STATE)

    def simulate(first: int, times: int) -> None:
        model, step, add_forces = task.model, mujoco.mj_step, mujoco.mj_rnePostConstraint
        own = list(range(first, len(data), threads))
        for t in range(times):
            control = controls[t % len(controls)]
            for i in own:
                data[i].ctrl[:] = control[i]
                step(model, data[i], task.frame_skip)
                if task.contact_forces:
                    add_forces(model, data[i])

    def go(times: int) -> None:
        workers = [threading.Thread(target=simulate, args=(k, times)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return Way(begin, go)


def pool(work: Work, env: MujocoVecEnv, threads: int) -> Way | None:
    """MuJoCo's own threads (``mujoco.batch``, from MuJoCo 4 on), which can't do what the tasks
    need after the step."""
    try:
        module = importlib.import_module("mujoco.batch")
    except ImportError:
        return None
    task = env._task
    batch = module.Batch(task.model, work.num_envs, threads)
    qpos, qvel, ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
    controls = _controls(work, task.model)

    def begin() -> None:
        batch.state[:] = _states(work, env)

    def go(times: int) -> None:
        for t in range(times):
            ctrl[:] = controls[t % len(controls)]
            batch.step(nstep=task.frame_skip)
            qpos.copy(), qvel.copy()

    return Way(begin, go)


def _states(work: Work, env: MujocoVecEnv) -> np.ndarray[Any, Any]:
    """Of the simulations at the start, float64 [N, mj_stateSize]."""
    env.reset(work.seeds)
    state = env.state()
    assert state is not None
    return state["physics"].numpy()


def _controls(work: Work, model: Any) -> list[np.ndarray[Any, Any]]:
    """The actions in the bounds of the actuators, float64."""
    low, high = model.actuator_ctrlrange.T
    return [low + (a.double().numpy() + 1) / 2 * (high - low) for a in work.actions]

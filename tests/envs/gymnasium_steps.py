"""Steps that gymnasium's own MuJoCo environments took, for engines that start from each."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import mujoco
import numpy as np
import torch
from torch import Tensor

from hpcpod.envs.arrays import rescaled
from hpcpod.envs.mujoco.tasks import TASKS

NEAR = 0.05
"""Metres above the floor within which the end of a capsule may touch it in the next step."""


class Steps(NamedTuple):
    """Single steps, each from the state that the one before it led to, or from a first one."""

    before: dict[str, Tensor]
    """qpos, qvel, qacc_warmstart and places, [N, *], in the dtypes of a batch's state."""
    action: Tensor
    """In [-1, 1], float32 [N, nu]."""
    after: dict[str, Tensor]
    """qpos and qvel, float64."""
    obs: Tensor
    reward: Tensor
    terminated: Tensor
    steep: Tensor
    """The largest |cosine| of a capsule near the floor to the vertical, before or after it."""


def some_steps(env_id: str, count: int) -> Steps:
    """Of random actions, always the same."""
    env = gym.make(env_id)
    inner: Any = env.unwrapped
    model, data = inner.model, inner.data
    task = TASKS[env_id](model=model)
    rng = np.random.default_rng(0)
    low, high = model.actuator_ctrlrange.astype(np.float32).T
    rows: list[tuple[Any, ...]] = []
    env.reset(seed=0)
    for _ in range(count):
        action = rng.uniform(-1, 1, model.nu).astype(np.float32)
        place = task.place({name: getattr(data, name)[None] for name in task.reads})[0]
        before = (data.qpos.copy(), data.qvel.copy(), data.qacc_warmstart.copy(), place)
        steep = _steep(model, data)
        obs, reward, terminated, truncated, _ = env.step(rescaled(action, low, high))
        steep = max(steep, _steep(model, data))
        after = (data.qpos.copy(), data.qvel.copy())
        rows.append((*before, action, *after, obs, reward, terminated, steep))
        if terminated or truncated:
            env.reset(seed=len(rows))
    env.close()
    columns = [torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)]
    names = ("qpos", "qvel", "qacc_warmstart", "places")
    before_all = {n: c.float() for n, c in zip(names, columns[:4], strict=True)}
    return Steps(
        before_all, columns[4], dict(zip(names[:2], columns[5:7], strict=True)), *columns[7:]
    )


def _steep(model: Any, data: Any) -> float:
    capsules = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    radius, half = model.geom_size[capsules, :2].T
    upright = np.abs(data.geom_xmat[capsules, 8])
    lowest = data.geom_xpos[capsules, 2] - upright * half - radius
    return float(np.max(upright, where=lowest < NEAR, initial=0.0))

"""Between a policy's tensors and the numpy arrays of environments that simulate on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpcpod.envs.vec_env import Space, Step, tensor_form
from hpcpod.errors import Diverged

Array = npt.NDArray[Any]
Form = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype."""


def check_finite(env: str, field: str, values: Array) -> None:
    """See that a batch of floats, [N, ...], is finite; other dtypes always are.

    Args:
        env: the environment's name, for the message.
        field: what the values are, such as ``"reward"``.
        values: of N environments.

    Raises:
        Diverged: naming the first environment whose values are not.
    """
    if values.dtype == np.float32 and not np.isfinite(values).all():
        rows = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        raise Diverged(
            f"{env}: the {field} of environment {rows[0]} is not finite: {values[rows[0]].tolist()}"
        )


def tensor(values: Array, device: str) -> Tensor:
    """The array as a tensor there; on the CPU they share their memory."""
    made = torch.from_numpy(values)
    return made if device == "cpu" else made.to(device)


def as_step(
    device: str,
    obs: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    next_obs: Array,
    valid: Array | None = None,
) -> Step:
    """The arrays of a step, each the caller's own, as tensors there; all rows are valid if None."""
    every = np.ones(len(obs), np.bool_) if valid is None else valid
    parts = (obs, reward, terminated, truncated, next_obs, every)
    return Step(*(tensor(part, device) for part in parts))


def form_of(space: Space) -> Form:
    """Of an element of a space as policies have it."""
    shape, dtype = tensor_form(space)
    return shape, np.dtype(str(dtype).removeprefix("torch."))


def action_map(space: gym.Space[Any]) -> Callable[[Array], Array]:
    """From a batch of the policy's actions to what the environments' ``step`` wants.

    Continuous actions are clipped to [-1, 1] and rescaled to the bounds of ``space``, in float32
    as all of it is: two backends of one environment give it the same bits.
    """
    if not isinstance(space, gym.spaces.Box):
        start = np.asarray(getattr(space, "start", 0))
        return lambda action: action + start if start.any() else action
    low, high, dtype = space.low, space.high, space.dtype

    def rescale(action: Array) -> Array:
        if not np.isfinite(action).all():
            raise Diverged(f"an action is not finite: {action.tolist()}")
        unit = (action + 1.0) / 2.0
        scaled: Array = np.clip(low + unit * (high - low), low, high).astype(dtype)
        return scaled

    return rescale

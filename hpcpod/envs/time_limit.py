"""Time limits given by a configuration, translated for each backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import gymnasium as gym

from hpcpod.envs.backend import Wanted
from hpcpod.envs.mujoco.tasks import TASKS
from hpcpod.envs.torch_envs import DYNAMICS
from hpcpod.errors import UserError

_TIME_LIMIT = "gymnasium.wrappers:TimeLimit"


def limited(wanted: Wanted, steps: int) -> Wanted:
    """The batch that is wanted, with episodes truncated after some steps at the latest.

    A limit of the environment's own that comes before stays.

    Args:
        wanted: of a backend that is not ``auto``.
        steps: of an episode at most, at least 1.

    Raises:
        UserError: this backend resets its environments by itself, whenever it likes.
    """
    if steps < 1:
        raise UserError(f"max_episode_steps must be at least 1, got {steps}")
    limit = {"max_episode_steps": steps}  # without one, runs trained nothing until stop.minutes
    if wanted.backend == "gymnasium":
        return replace(wanted, wrappers=[*wanted.wrappers, {_TIME_LIMIT: limit}])
    own = _OWN.get(wanted.backend)
    if own is None:
        raise refused(wanted.backend)
    has = wanted.kwargs.get("max_episode_steps", own(wanted.env))
    shorter = isinstance(has, int) and has < steps  # what is no number is refused where it is read
    return wanted if shorter else replace(wanted, kwargs={**wanted.kwargs, **limit})


def refused(backend: str) -> UserError:
    """The error of a backend that can't cut episodes."""
    return UserError(
        f"backend {backend} ends episodes itself, and can't be given env.max_episode_steps; set the"
        " time limit where its environments are made, or by env.kwargs if they take one"
    )


def _of_torch(env: object) -> int | None:
    return DYNAMICS[env].time_limit if isinstance(env, str) and env in DYNAMICS else None


def _of_mujoco(env: object) -> int | None:
    return gym.spec(env).max_episode_steps if isinstance(env, str) and env in TASKS else None


def _of_envpool(env: object) -> int | None:
    from hpcpod.envs.envpool import Pool

    spec = Pool(env, 1, {}).spec if isinstance(env, str) else None
    return None if spec is None else spec.max_episode_steps


_OWN: Mapping[str, Callable[[object], int | None]] = {
    "torch": _of_torch, "mujoco": _of_mujoco, "warp": _of_mujoco, "envpool": _of_envpool,
}  # fmt: skip
"""The time limit of a task, of those backends that take another one as an argument."""

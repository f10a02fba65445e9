"""The table of gymnasium's MuJoCo tasks by id, and one task as a configuration asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from hpcpod import plugins
from hpcpod.envs import gymnasium_make, simulator_warnings
from hpcpod.envs.backend import Wanted
from hpcpod.envs.mujoco import arms, balance, locomotion
from hpcpod.envs.mujoco.task import Task, defaults, options
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.errors import UserError

TASKS: dict[str, type[Task]] = {
    kind.id(): kind
    for kind in (
        locomotion.Ant,
        locomotion.HalfCheetah,
        locomotion.Hopper,
        locomotion.Humanoid,
        balance.InvertedDoublePendulum,
        balance.InvertedPendulum,
        arms.Pusher,
        arms.Reacher,
        locomotion.Swimmer,
        locomotion.Walker2d,
    )
}
"""The tasks that are written for a batch, by gymnasium's ids."""

WARP_ROOM = {"nconmax": "contacts", "njmax": "constraints"}
"""MuJoCo Warp's names for what it must be given room for, and ours."""

WRAPPERS_REFUSED = (
    "{env} can't have wrappers (env.wrappers) on the backend {backend}, which makes no gymnasium"
    " environment; use the backend gymnasium"
)
"""Refusal of both backends that step these tasks."""

_MODELS = Path(gym.__file__).parent / "envs" / "mujoco" / "assets"


@dataclass(frozen=True)
class Choice:
    """A task, its model and its options, before an engine is found for them."""

    kind: type[Task]
    model: Any
    """The MjModel."""
    options: Mapping[str, Any]
    """Keyword arguments of ``kind``."""
    time_limit: int
    """Steps of an episode at most."""
    own: Mapping[str, int]
    """Arguments of the backend, not of the task."""

    @property
    def actions(self) -> gym.spaces.Box:
        """The bounds of the actuators, float32 [nu]."""
        low, high = self.model.actuator_ctrlrange.astype(np.float32).T
        return gym.spaces.Box(low, high)

    def spec(self, observation: tuple[int, ...], wanted: Wanted, by: str) -> EnvSpec:
        """The spec of the batch that is wanted, stepped ``by`` some engine, in words."""
        observed = gym.spaces.Box(-np.inf, np.inf, observation)
        limit = {"max_episode_steps": self.time_limit}
        return gymnasium_make.spec_of(
            self.kind.id(), observed, self.actions, wanted, engine=by, **limit
        )


def choose(backend: str, wanted: Wanted, own: Sequence[str] = ()) -> Choice:
    """The task that is asked for, its model loaded.

    Args:
        backend: the name of the one that is asked, for the messages.
        wanted: the batch.
        own: the backend's own arguments, each a whole number of at least 1.

    Raises:
        UserError: there is no such task, it has no such argument, or MuJoCo is not installed.
    """
    env = wanted.env
    if not isinstance(env, str) or env not in TASKS:
        name = env if isinstance(env, str) else repr(env)
        raise UserError(
            f"the backend {backend} has no {name}{plugins.suggest(name, list(TASKS), 0.8)}; it has"
            f" {', '.join(TASKS)}; for any other use the backend gymnasium"
        )
    usual = {"max_episode_steps": gym.spec(env).max_episode_steps}
    counts = ("max_episode_steps", *own)
    given = options(TASKS[env], usual | dict(wanted.kwargs), backend, counts)
    apart = {name: given.pop(name) for name in counts if name in given}
    limit = apart.pop("max_episode_steps")
    return Choice(TASKS[env], _load(TASKS[env]), given, limit, apart)


def knows(env: str, kwargs: Mapping[str, object]) -> bool:
    """True if it is one of ``TASKS``, and the arguments are by their names; nothing is made.

    A value that will not do is refused when the task is made. But ``max_episode_steps`` may be -1
    (no limit) or None (the usual one) in gymnasium.
    """
    if env not in TASKS or kwargs.get("max_episode_steps", 1) in (-1, None):
        return False
    # By names: of a wrong value gymnasium would raise in mid-episode, or take it for true.
    return {"max_episode_steps", *defaults(TASKS[env])}.issuperset(kwargs)


def _load(kind: type[Task]) -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise UserError(
            f"{kind.id()} needs MuJoCo, which can't be imported ({error});"
            " pip install 'hpcpod[mujoco]'"
        ) from error
    with simulator_warnings.models_of(kind.id()):
        return mujoco.MjModel.from_xml_path(str(_MODELS / kind.model_file))

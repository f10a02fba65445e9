"""A MuJoCo task without its simulator: first state, observation, reward, end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from hpcpod import plugins
from hpcpod.envs.mujoco.initial_states import Draws
from hpcpod.errors import UserError

Fields = Mapping[str, Any]
"""Fields of MjData by name, each [N, *its shape], in the engine's floats."""

_NOT_OPTIONS = ("model", "xp")


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One of gymnasium's v5 tasks for a batch; named as its id is, without the version.

    Its options have gymnasium's names and defaults, its formulas are those of gymnasium's
    environment of the same name. Arrays come from any engine: ``xp`` is the module whose they
    are, ``numpy`` or ``torch``.
    """

    model_file: ClassVar[str]
    """Among the models that gymnasium ships."""
    reads: ClassVar[tuple[str, ...]] = ("qpos", "qvel")
    """Fields of MjData that the methods below read."""
    contact_forces: ClassVar[bool] = False
    """True if ``cfrc_ext`` is among them: it needs mj_rnePostConstraint after the step."""

    model: Any
    """The MjModel, or what an engine has of it, ``qpos0`` and ``body_mass`` as arrays of ``xp``."""
    xp: Any = np
    frame_skip: int = 5
    """Simulation steps in a step of the environment."""

    @classmethod
    def id(cls) -> str:
        """gymnasium's id."""
        return f"{cls.__name__}-v5"

    @cached_property
    def dt(self) -> float:
        """Seconds in a step of the environment."""
        return float(self.model.opt.timestep) * self.frame_skip

    @abstractmethod
    def first_state(self, draws: Draws) -> tuple[Any, Any]:
        """Positions [nq] and velocities [nv] of an episode's start; of N episodes [N, nq], [N, nv].

        What is drawn, and in which order, is gymnasium's: its generator begins its episode.
        """

    def place(self, fields: Fields) -> Any:
        """x [N], in metres, from which the next step's velocity is measured."""
        return fields["qpos"][:, 0]

    @abstractmethod
    def observation(self, fields: Fields) -> Any:
        """The policy's observations, [N, *], in arrays of their own."""

    @abstractmethod
    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        """Rewards, float [N], and whether the task ended, bool [N].

        Args:
            fields: after the step.
            action: float32 [N, nu], in the bounds of the actuators.
            velocity: of ``place``, [N], in metres per second.
        """

    def joined(self, *parts: Any) -> Any:
        """The parts, each [N, ...], side by side: [N, *]."""
        return self.xp.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


@dataclass(frozen=True, kw_only=True)
class NoisyTask(Task):
    """Starts from the model's own state and noise on all of it."""

    normal_velocities: ClassVar[bool] = False
    """True if the noise of the velocities is normal, not uniform."""

    reset_noise_scale: float = 0.1

    def first_state(self, draws: Draws) -> tuple[Any, Any]:
        """As ``Task.first_state``."""
        scale = self.reset_noise_scale
        qpos = self.model.qpos0 + draws.uniform(-scale, scale, self.model.nq)
        if self.normal_velocities:
            return qpos, scale * draws.normal(self.model.nv)
        return qpos, draws.uniform(-scale, scale, self.model.nv)


def defaults(kind: type[Task]) -> dict[str, Any]:
    """The options of a task, by their names."""
    return {f.name: f.default for f in fields(kind) if f.name not in _NOT_OPTIONS}


def options(
    kind: type[Task], given: Mapping[str, object], backend: str, own: Sequence[str]
) -> dict[str, Any]:
    """Keyword arguments for a task from those of a configuration.

    Args:
        kind: the task.
        given: what was given.
        backend: its name, for the message.
        own: further arguments, of the backend itself: whole numbers of at least 1.

    Raises:
        UserError: the task has no such option, or the value will not do.
    """
    usual = defaults(kind) | dict.fromkeys(own, 1)
    for name in given:
        if name not in usual:
            raise UserError(
                f"{kind.id()} has no argument '{name}' (env.kwargs) on the backend {backend}"
                f"{plugins.suggest(name, [*usual], 0.8)}; it has {', '.join(usual)}, and"
                " the backend gymnasium has all that gymnasium has"
            )
    return {name: _checked(kind, name, usual[name], value) for name, value in given.items()}


def _checked(kind: type[Task], name: str, default: object, value: Any) -> object:
    if name == "main_body":
        fits, wanted = isinstance(value, (int, str)), "the number or the name of a body"
    elif name == "reset_noise_scale":  # the generator refused a negative one at the first reset
        fits, wanted = _number(value) and 0 <= value < np.inf, "a finite number of at least 0"
    elif isinstance(default, bool):
        fits, wanted = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        wanted = "a whole number of at least 1"
    elif isinstance(default, tuple):
        fits = isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_number, value))
        wanted = "two numbers"
    else:
        fits, wanted = _number(value), "a number"
    if not fits:
        raise UserError(f"{kind.id()}: env.kwargs.{name} must be {wanted}, got {value!r}")
    return tuple(value) if isinstance(value, list) else value


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def body(model: Any, name: int | str) -> int:
    """The number of a body of an MjModel.

    Raises:
        UserError: it has none of this name or number.
    """
    try:
        return int(model.body(name).id)
    except (KeyError, IndexError) as error:
        raise UserError(f"env.kwargs.main_body: the model has no body {name!r}") from error

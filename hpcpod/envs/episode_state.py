"""Snapshots of one gymnasium environment in mid-episode, where it can be saved.

Two kinds can be saved: gymnasium's classic control, by the attributes known here, and any
environment that has the two methods of ``Saveable``. In both cases only under wrappers that
keep nothing but a step counter.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
import torch

from hpcpod.envs.gymnasium_make import Env, wrappers_of
from hpcpod.envs.vec_env import State


@runtime_checkable
class Saveable(Protocol):
    """The methods of an environment of one's own whose rounds resume in mid-episode.

    ``np_random`` is saved beside it and need not be in the dictionary. The methods are called
    between two steps of one episode, never after its end.
    """

    def save_state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Named arrays that say everything about the episode so far."""
        ...

    def load_state(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from there; ``reset`` was called just before."""
        ...


_STATELESS = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)

_CLASSIC = frozenset(
    f"gymnasium.envs.classic_control.{name}"
    for name in (
        "acrobot:AcrobotEnv",
        "cartpole:CartPoleEnv",
        "continuous_mountain_car:Continuous_MountainCarEnv",
        "mountain_car:MountainCarEnv",
        "pendulum:PendulumEnv",
    )
)


def can_save(env: Env) -> bool:
    """True if ``save`` gives the whole state of this environment."""
    kind = type(env.unwrapped)
    known = f"{kind.__module__}:{kind.__qualname__}" in _CLASSIC
    if not known and not isinstance(env.unwrapped, Saveable):
        return False
    if any(not isinstance(w, (*_STATELESS, gym.wrappers.TimeLimit)) for w in wrappers_of(env)):
        return False
    return isinstance(env.np_random.bit_generator, np.random.PCG64)


def save(env: Env) -> State:
    """The episode so far: physics, random generator, time limits."""
    inner: Any = env.unwrapped
    if isinstance(inner, Saveable):
        arrays = inner.save_state()
    else:
        arrays = {"state": np.asarray(inner.state)}
    saved = {f"env/{name}": torch.from_numpy(np.array(a)) for name, a in arrays.items()}
    saved["rng"] = _generator_state(env)
    saved["elapsed"] = torch.tensor([t._elapsed_steps or 0 for t in _time_limits(env)])
    return saved


def load(env: Env, saved: State) -> None:
    """Go on from what ``save`` gave."""
    env.reset(seed=0)  # sets whatever flags the wrappers and the environment keep
    inner: Any = env.unwrapped
    arrays = {
        name.removeprefix("env/"): tensor.numpy().copy()
        for name, tensor in saved.items()
        if name.startswith("env/")
    }
    if isinstance(inner, Saveable):
        inner.load_state(arrays)
    else:
        inner.state = arrays["state"]
    _set_generator_state(env, saved["rng"])
    for limit, elapsed in zip(_time_limits(env), saved["elapsed"].tolist(), strict=True):
        limit._elapsed_steps = elapsed


def _time_limits(env: Env) -> list[Any]:
    return [w for w in wrappers_of(env) if isinstance(w, gym.wrappers.TimeLimit)]


def _generator_state(env: Env) -> torch.Tensor:
    # PCG64 is two 128-bit numbers and half a draw that may be left over: 16 + 16 + 1 + 4 bytes.
    state: Any = env.np_random.bit_generator.state
    raw = (
        state["state"]["state"].to_bytes(16, "little")
        + state["state"]["inc"].to_bytes(16, "little")
        + int(state["has_uint32"]).to_bytes(1, "little")
        + int(state["uinteger"]).to_bytes(4, "little")
    )
    return torch.tensor(list(raw), dtype=torch.uint8)


def _set_generator_state(env: Env, tensor: torch.Tensor) -> None:
    raw = bytes(tensor.tolist())
    env.np_random.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {
            "state": int.from_bytes(raw[:16], "little"),
            "inc": int.from_bytes(raw[16:32], "little"),
        },
        "has_uint32": raw[32],
        "uinteger": int.from_bytes(raw[33:37], "little"),
    }

"""Make a batched environment from the section ``env`` of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from hpcpod import plugins
from hpcpod.config.schema import EnvConfig
from hpcpod.envs import autotune, time_limit
from hpcpod.envs.backend import Wanted
from hpcpod.envs.gymnasium_make import Wrapper
from hpcpod.envs.mujoco.tasks import WARP_ROOM
from hpcpod.envs.processes.env import ProcessVecEnv
from hpcpod.envs.processes.remote import RemoteVecEnv
from hpcpod.envs.vec_env import VecEnv
from hpcpod.errors import UserError


def make_env(  # noqa: PLR0913 (what one says of an environment, by name)
    env: str | Callable[..., Any] | VectorEnv[Any, Any, Any],
    num_envs: int = 1,
    backend: str = "auto",
    device: str = "cpu",
    wrappers: Sequence[Wrapper] = (),
    kwargs: Mapping[str, object] | None = None,
    processes: int | None = 1,
    max_episode_steps: int | None = None,
) -> VecEnv:
    """N environments as one batch.

    Args:
        env: a gymnasium id, the path ``"pkg.mod:EnvClass"``, or what returns a gymnasium.Env; for
            backend ``"vector"`` what returns a gymnasium VectorEnv, or its path; or a VectorEnv.
        num_envs: N; a VectorEnv has its own.
        backend: ``"auto"`` (see ``autotune.backend_of``), a name of the group ``hpcpod.envs``, or
            the path of a class, called as ``backend(env, num_envs, device, wrappers, kwargs)``.
        device: where the tensors live.
        wrappers: innermost first, each ``"pkg.mod:Wrapper"`` or ``{"pkg.mod:Wrapper": {...}}``.
        kwargs: of the environment itself.
        processes: that step a part of the environments each, N at most; 1: this one steps all.
            More need an ``env`` that is a text, and plain data as arguments. None: what is faster,
            as ``autotune.in_processes`` finds out.
        max_episode_steps: after which an episode is truncated, if it has not ended before. None:
            as the environment has it.

    Raises:
        UnusablePlugin: the backend can't be had.
        UnusableWrapper: a wrapper can't be had.
        UserError: it is neither of these, or can't be had; the sentence says what to do.
    """
    if not isinstance(env, (str, VectorEnv)) and not callable(env):
        raise UserError(
            f"expected the id or the path of an environment, or what returns one, got {env!r}"
        )
    if isinstance(wrappers, (str, Mapping)):
        raise UserError(f"wrappers: expected a list of them, innermost first, got {wrappers!r}")
    if isinstance(env, VectorEnv):
        num_envs = env.num_envs if num_envs == 1 else num_envs
        backend = "vector" if backend == "auto" else backend
    wanted = Wanted(env, num_envs, device, wrappers, kwargs or {}, backend)
    wanted = replace(wanted, backend=autotune.backend_of(wanted))
    if max_episode_steps is not None:
        wanted = time_limit.limited(wanted, max_episode_steps)
    if processes is None:
        several = autotune.in_processes(wanted)
        if several is not None:
            return several
    elif processes != 1:
        return ProcessVecEnv(wanted, processes)
    made: VecEnv = plugins.make(
        VecEnv, "envs", wanted.backend, env, num_envs, device, wanted.wrappers, wanted.kwargs
    )
    return made


def configured(env: EnvConfig, num_envs: int, device: str) -> VecEnv:
    """The batch of N that a configuration's section ``env`` asks for; raises what that raises."""
    if env.python is not None:
        return RemoteVecEnv(env, num_envs, device)
    processes = None if env.processes is None else min(env.processes, num_envs)
    return make_env(
        env.id, num_envs, env.backend, device, env.wrappers, env.kwargs, processes,
        env.max_episode_steps,
    )  # fmt: skip


def reference(env: EnvConfig) -> EnvConfig | None:
    """The same task as gymnasium's own environment plays it; None if gymnasium has none."""
    if env.python is not None or env.id not in gym.registry:  # letter by letter
        return None
    kwargs = {name: value for name, value in env.kwargs.items() if name not in WARP_ROOM}
    return replace(env, backend="gymnasium", kwargs=kwargs if env.backend == "warp" else env.kwargs)


def backend_of(env: EnvConfig) -> str:
    """The backend of ``configured``: never ``auto``, but what that comes to."""
    if env.python is not None:
        return "gymnasium" if env.backend == "auto" else env.backend
    wrappers, kwargs = env.wrappers, env.kwargs
    return autotune.backend_of(Wanted(env.id, 1, "cpu", wrappers, kwargs, env.backend))


def processes_of(env: VecEnv) -> int:
    """The number of processes that step a batch; 1: one, this or another Python's."""
    return env.processes if isinstance(env, ProcessVecEnv | RemoteVecEnv) else 1

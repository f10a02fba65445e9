"""A batched environment that another Python steps, as Isaac Gym and old packages need."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from hpcpod.config.schema import EnvConfig
from hpcpod.envs import gymnasium_make, time_limit
from hpcpod.envs.arrays import Array, action_map, as_step, check_finite
from hpcpod.envs.backend import Wanted
from hpcpod.envs.processes import foreign
from hpcpod.envs.processes.env import Pooled
from hpcpod.envs.processes.pool import Pool, shared_out
from hpcpod.envs.processes.wire import plain
from hpcpod.envs.spec_json import space_of
from hpcpod.envs.vec_env import State, Step, check_batch
from hpcpod.errors import UnsupportedSpace, UserError


class RemoteVecEnv(Pooled):
    """N environments of another Python's, in one of its processes or in several.

    Only numpy and the simulator must be installed there. The environment may have gymnasium's
    interface, or gym's from before it. What it gives comes through shared memory; actions are
    rescaled and numbers checked on this side, and an episode's seed is the same as here.
    """

    def __init__(self, config: EnvConfig, num_envs: int, device: str = "cpu") -> None:
        """Start the processes and have them make the environments.

        Args:
            config: what to make, by which ``python``. Its own packages count, PYTHONPATH does not;
                a path may be of a file that lies where this Python finds modules of one's own.
            num_envs: N.
            device: where the tensors that it gives live.

        Raises:
            UserError: there is no such interpreter, or it can't make the environment.
            UnsupportedSpace: it has a space that agents can't use.
            EnvFailed: a process has ended meanwhile.
        """
        check_batch(num_envs, device)
        python, env = check_python(config.python), config.id
        processes = min(config.processes or 1, num_envs)
        if config.max_episode_steps is not None and config.backend == "isaacgym":
            raise time_limit.refused(config.backend)
        request = {
            **plain(env, config.wrappers, config.kwargs),
            "backend": config.backend, "path": own_folders(),
            "max_episode_steps": config.max_episode_steps,
        }  # fmt: skip
        requests = shared_out(request, num_envs, processes)
        # -E: PYTHONPATH and the like are meant for this Python.
        super().__init__(Pool(env, requests, (python, "-E", "-u", str(Path(foreign.__file__)))))
        spec = self._pool.specs()[0]
        try:
            observed, acted = _space(env, spec["observation"]), _space(env, spec["action"])
            facts = {name: spec[name] for name in ("max_episode_steps", "engine", "seeded")}
            wanted = Wanted(env, num_envs, device)
            self.spec = gymnasium_make.spec_of(env, observed, acted, wanted, **facts)
        except UserError:
            self.close()
            raise
        start = np.asarray(getattr(observed, "start", 0))
        self._start = start if start.any() else None
        self._to_env = action_map(acted)
        assert acted.shape is not None and acted.dtype is not None
        self._arrays = self._pool.share(self.spec, (acted.shape, np.dtype(acted.dtype)))

    def _observed(self) -> Array:
        obs = super()._observed()
        if self._start is not None:
            obs -= self._start
        check_finite(self.spec.id, "observation", obs)
        return obs

    def _give(self, action: Array) -> None:
        self._arrays["action"][:] = self._to_env(action)

    def _taken(self) -> Step:
        # One row of two is written only where an episode ends: of the rest the successor is obs.
        obs, reward, terminated, truncated, last, valid = (
            self._arrays[name].copy() for name in Step._fields
        )
        next_obs, rows = obs.copy(), np.flatnonzero(terminated | truncated)
        next_obs[rows] = last[rows]
        if self._start is not None:
            obs -= self._start
            next_obs -= self._start
        check_finite(self.spec.id, "observation", next_obs)
        check_finite(self.spec.id, "reward", reward)
        check_finite(self.spec.id, "observation", obs, rows)
        return as_step(self.spec.device, obs, reward, terminated, truncated, next_obs, valid)

    def state(self) -> State | None:
        """None: what another Python holds can't be saved."""
        return None

    def restore(self, state: State) -> None:
        """There is no ``state`` to go on from."""
        raise ValueError(f"{self.spec.id} is stepped by another Python, and has no state")


def check_python(python: str | None) -> str:
    """The interpreter's path, of which there is such a program.

    Raises:
        UserError: there is not.
    """
    if python is None or not (Path(python).is_file() and os.access(python, os.X_OK)):
        raise UserError(
            f"env.python: there is no program {python}; give the path of an interpreter, such as"
            " /path/to/bin/python"
        )
    return python


def own_folders() -> list[str]:
    """Folders of ``sys.path`` that are the user's: the rest is an installation of this Python's."""
    ours = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    installed = ("site-packages", "dist-packages")
    folders = [Path(entry).resolve() for entry in sys.path]
    return [
        str(folder)
        for folder in folders
        if folder.is_dir() and folder.name not in installed
        and not any(folder.is_relative_to(own) for own in ours)
    ]  # fmt: skip


def _space(env: str, described: Mapping[str, Any]) -> gym.Space[Any]:
    """The space as gymnasium of this Python has it."""
    if described["kind"] == "MultiBinary":
        return gym.spaces.MultiBinary(described["n"])
    if described["kind"] in ("Box", "Discrete", "MultiDiscrete"):
        return space_of({"start": 0} | dict(described))  # old gym's spaces have none
    raise UnsupportedSpace(
        f"{env} has a space that agents can't use: {described['words']}; a wrapper in env.wrappers"
        " may turn it into one, such as gymnasium.wrappers:FlattenObservation"
    )

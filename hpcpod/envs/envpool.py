"""EnvPool's environments as a ``VecEnv``: simulators and batches in C++, on threads of its own."""

from __future__ import annotations

import ctypes
import importlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.vector import AutoresetMode, VectorEnv

from hpcpod import plugins
from hpcpod.envs import gymnasium_make
from hpcpod.envs.backend import Wanted
from hpcpod.envs.catalog import pip_line
from hpcpod.envs.threads import env_threads
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.envs.vector import GymnasiumVectorEnv, takes_seeds
from hpcpod.errors import UserError, in_words

_OURS = (
    "num_envs",
    "batch_size",
    "num_threads",
    "max_num_players",
    "seed",
    "env_seed",
    "gym_reset_return_info",
)
"""Arguments of EnvPool's that follow from what is asked for."""
_NO_LIMIT = 2**31 - 1  # an int32


class EnvPoolVecEnv(GymnasiumVectorEnv):
    """N of EnvPool's environments, stepped by ``env_threads()`` threads.

    EnvPool seeds its environments when it makes them, so each ``reset`` makes all of them anew:
    some 1 ms for an Ant, 2 ms for a Humanoid. Environment i's first episode runs on ``seeds[i]``;
    later ones go on with its generator, in a batch of any size. It resets as gymnasium's
    ``NEXT_STEP`` does, so the row after an end is not ``valid``. The state can't be saved.

    The environment is a name of ``envpool.list_all_envs()``, such as ``"Ant-v5"``; its arguments
    are the task's configuration in EnvPool, such as ``max_episode_steps``.

    Tasks, their limits and their spaces are those of gymnasium's ids; three things are not:

    - The random numbers: a seed is another episode than gymnasium's.
    - MuJoCo, which is the version that EnvPool was built with, whichever is installed: 3.6.0 in
      EnvPool 1.2.5, 3.11.0 in 1.2.7. ``spec.engine`` has it.
    - An episode that terminates in the very step in which its time is up is only truncated.
    """

    no_wrappers = (
        "{env} can't have wrappers (env.wrappers) on the backend envpool, which makes no single"
        " environments; use the backend gymnasium"
    )

    def _make(self, wanted: Wanted) -> EnvSpec:
        pool = Pool(_task(wanted.env), wanted.num_envs, wanted.kwargs)
        spec = super()._make(replace(wanted, env=pool, kwargs={}))
        return replace(spec, engine=f"{_engine(pool.task)}, {spec.engine}")

    def _takes_seeds(self, name: str) -> bool:
        assert isinstance(self._venv, Pool)
        pair = self._venv.pair()  # thousands would take seconds
        with gymnasium_make.refusals(name):
            pair.reset(seed=[0, 1])
        return takes_seeds(name, pair)


class Pool(VectorEnv[Any, Any, Any]):
    """EnvPool as a VectorEnv whose ``reset`` takes seeds: EnvPool's own ignores them."""

    def __init__(self, task: str, num_envs: int, options: Mapping[str, object]) -> None:
        """Read what the task is; the first ``reset`` makes its environments.

        Args:
            task: one of EnvPool's.
            num_envs: N.
            options: of the task.

        Raises:
            UserError: EnvPool refuses the options; see ``EnvPoolVecEnv``.
        """
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # as EnvPool 1.2.5 does
        self.num_envs = num_envs
        self._options = options
        self._threads = min(env_threads(), num_envs)
        self._pool: Any = None
        with gymnasium_make.refusals(task), _quiet():
            self.task = _configured(task, options)
            self.single_observation_space = self.task.observation_space
            self.single_action_space = self.task.action_space
            limit = self.task.config.max_episode_steps
            self.spec = Registered(task, max_episode_steps=limit if 0 < limit < _NO_LIMIT else None)

    def pair(self) -> Pool:
        """Two such environments."""
        assert self.spec is not None
        return Pool(self.spec.id, 2, self._options)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Make all environments anew, on a seed for each, or on one for all."""
        # EnvPool seeds environments when it makes them, and its reset() takes no seed.
        self._pool = None  # its threads end, and its memory is free
        assert self.spec is not None
        with _quiet():
            self._pool = _envpool().make_gymnasium(
                self.spec.id,
                num_envs=self.num_envs,
                num_threads=self._threads,
                seed=(np.asarray(seed) % 2**31).tolist(),  # an int32 there
                **self._options,
            )
            return self._pool.reset()

    def step(self, actions: Any) -> Any:
        """As gymnasium's."""
        return self._pool.step(actions)

    def close_extras(self, **_: Any) -> None:
        """End the threads, which EnvPool's ``close`` does not."""
        self._pool = None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without gymnasium's warnings that EnvPool's bounds are no float32."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _task(env: object) -> str:
    names = _envpool().list_all_envs()
    if isinstance(env, str) and env in names:
        return env
    name = env if isinstance(env, str) else repr(env)
    raise UserError(
        f"the backend envpool has no {name}{plugins.suggest(name, names, 0.6)}; it has those that"
        " envpool.list_all_envs() lists, and the backend gymnasium has others"
    )


def _configured(task: str, options: Mapping[str, object]) -> Any:
    """EnvPool's own description of a task: its configuration and its spaces.

    Raises:
        UserError: it has no such option, or a value will not do.
    """
    make_spec = _envpool().make_spec
    for name in options:
        if name in _OURS:
            raise UserError(
                f"{task}: env.kwargs.{name} follows from what else is asked for (env.num_envs,"
                " resources.cpus_per_pod, the seeds); leave it out"
            )
    try:
        made = make_spec(task, **options)
    except ImportError as error:  # such as Procgen's, which is Qt and nothing that pip has
        raise UserError(f"{task} can't be made: {in_words(error)}") from error
    except TypeError as error:
        defaults = make_spec(task).config._asdict()
        _check_names(task, options, list(defaults))
        wrong = [
            f"{name} is {value!r}, but by default {defaults[name]!r}"
            for name, value in options.items()
            if type(value) is not type(defaults[name])
        ]
        raise UserError(
            f"{task} refused its arguments (env.kwargs): {'; '.join(wrong) or in_words(error)}"
        ) from error
    config = made.config
    _check_names(task, options, list(config._fields))  # some would be for renderers
    if config.max_num_players != 1:
        raise UserError(f"{task} is played by several agents, which hpcpod does not train")
    if "max_episode_steps" in options and config.max_episode_steps < 1:
        said = config.max_episode_steps
        raise UserError(f"{task}: env.kwargs.max_episode_steps must be at least 1, got {said}")
    return made


def _check_names(task: str, options: Mapping[str, object], names: list[str]) -> None:
    known = [name for name in names if name not in _OURS]
    for name in options:
        if name not in known:
            raise UserError(
                f"{task} has no argument '{name}' (env.kwargs) on the backend envpool"
                f"{plugins.suggest(name, known, 0.6)}; it has {', '.join(known)}"
            )


def _engine(task: Any) -> str:
    """EnvPool with its version, and MuJoCo's where it is built into what simulates the task."""
    said = f"envpool {version('envpool')}"
    for kind in type(task).__mro__:
        library = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
        if library.endswith(".so"):
            try:
                version_of = ctypes.CDLL(library).mj_versionString
            except AttributeError:  # another simulator
                continue
            # On another MuJoCo Ant is 1e-3 apart after 10 steps, and of order 1 after 50.
            version_of.restype = ctypes.c_char_p
            said += f" (MuJoCo {version_of().decode()})"
    return said


def _envpool() -> Any:
    try:
        return importlib.import_module("envpool")
    except ImportError as error:
        raise UserError(
            f"the backend envpool needs EnvPool, which can't be imported ({error});"
            f" {pip_line('hpcpod[envpool]')} (Python 3.11 or newer)"
        ) from error

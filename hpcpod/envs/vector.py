"""An existing ``gymnasium.vector.VectorEnv`` as a ``VecEnv``, in each of its reset modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from torch import Tensor

from hpcpod import plugins
from hpcpod.envs import gymnasium_make, observations, simulator_warnings
from hpcpod.envs.arrays import Array, action_map, as_step, check_finite, tensor
from hpcpod.envs.backend import Backend, Wanted
from hpcpod.envs.vec_env import (
    EnvSpec,
    Step,
    episode_seed,
    given_seeds,
    random_seeds,
)
from hpcpod.errors import EnvFailed, UnknownPlugin, UserError, in_words

Vector = VectorEnv[Any, Any, Any]
Factory = Callable[..., Vector]


class GymnasiumVectorEnv(Backend):
    """N environments that a ``gymnasium.vector.VectorEnv`` steps, whatever simulates them.

    The environment is what is called as ``env(num_envs=N, **kwargs)`` and returns a VectorEnv, or
    its path ``"pkg.mod:factory"``; a gymnasium id, for ``gymnasium.make_vec``; or a VectorEnv of N
    environments, which is this one's from now on, to close too.

    How it resets is read from its ``metadata["autoreset_mode"]``:

    - ``SAME_STEP``: the true final observation is the one in ``info["final_obs"]``.
    - ``NEXT_STEP``: at an end ``obs`` is the final observation too. The step after it only resets:
      the row's action is ignored, its reward is 0 and it is not ``valid``.
    - ``DISABLED``: rows that ended are reset at once, by ``options={"reset_mask": ...}``.

    Seeds: ``spec.seeded`` is found out when it is made, by two resets on per-environment seeds
    whose order is turned round. Where it is true, environment i's first episode after ``reset``
    runs on exactly ``seeds[i]``: all that a panel plays. In mode ``DISABLED`` its k-th later one
    runs on ``episode_seed(seeds[i], k)``. In the other modes gymnasium resets without a seed, so
    later episodes go on with the environment's own generator: the seeds and what was drawn since
    decide them, in a batch of any size, but they are not those of the ``gymnasium`` backend.
    Where it is false, ``seeds[0]`` seeds the whole batch, if it takes even that.

    Observations and actions are mapped as by the ``gymnasium`` backend. Its state can't be saved.
    In mode ``SAME_STEP`` an environment that gives one array again and again, and changes it in
    ``reset``, destroys the final observation before it is read; ``check_env`` says so.
    """

    no_wrappers = (
        "wrappers are put around single environments, which backend vector never sees; leave out"
        " env.wrappers and wrap them where the VectorEnv is made"
    )

    def _make(self, wanted: Wanted) -> EnvSpec:
        name = _name_of(wanted.env)
        with gymnasium_make.refusals(name):
            self._venv = _made(wanted.env, wanted.num_envs, wanted.kwargs)
        self._broken = False
        self._seeds: list[int] = []
        try:
            return self._take(name, wanted)
        except BaseException:
            if self._venv is not wanted.env:
                self.close()
            raise

    @classmethod
    def of(cls, env: Vector, device: str = "cpu") -> GymnasiumVectorEnv:
        """Take a VectorEnv that exists, with as many environments as it has."""
        return cls(env, env.num_envs, device)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset`` and, for later episodes, above."""
        self._seeds = given_seeds(seeds, self.spec.num_envs).tolist()
        self._episodes = np.zeros(self.spec.num_envs, np.int64)
        self._ended = np.zeros(self.spec.num_envs, np.bool_)
        obs = self._begin(seed=self._seeds if self.spec.seeded else self._seeds[0])
        return tensor(obs, self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``.

        Raises:
            EnvFailed: a process of the VectorEnv is gone.
            UserError: it does not keep gymnasium's API.
        """
        self._check_step(self._seeds, action)
        actions = self._to_env(action.detach().cpu().numpy())
        with self._at_work():
            answer = self._venv.step(actions)
        next_obs, reward, terminated, truncated, info = self._read_step(answer)
        valid = np.ones(self.spec.num_envs, np.bool_)
        if self._mode is AutoresetMode.NEXT_STEP:
            # gymnasium's default mode: such a row's action is ignored, and its reward is 0.
            valid = ~self._ended
            reward[~valid] = 0.0
            terminated &= valid
            truncated &= valid
        self._ended = terminated | truncated
        obs = next_obs.copy()
        if self._ended.any() and self._mode is AutoresetMode.SAME_STEP:
            self._put_finals(info, next_obs)
        check_finite(self.spec.id, "observation", next_obs)
        check_finite(self.spec.id, "reward", reward)
        if self._ended.any() and self._mode is AutoresetMode.DISABLED:
            obs = self._begin_where(self._ended)
        check_finite(self.spec.id, "observation", obs)
        return as_step(self.spec.device, obs, reward, terminated, truncated, next_obs, valid)

    def close(self) -> None:
        """Close the VectorEnv; its processes are killed if a call of theirs did not come back."""
        inner = self._venv.unwrapped
        if not (self._broken and isinstance(inner, AsyncVectorEnv)):
            self._venv.close()
            return
        # Its own close() waits for that call, and raises where a process is gone.
        for process in inner.processes:
            process.kill()
            process.join()
        inner.closed = True

    def _take(self, name: str, wanted: Wanted) -> EnvSpec:
        venv, num_envs = self._venv, wanted.num_envs
        if venv.num_envs != num_envs:
            raise UserError(
                f"{name} gave {venv.num_envs} environments, but {num_envs} are needed; let it make"
                " as many as its argument num_envs says"
            )
        space = venv.single_observation_space
        self._space, self._mode = space, _mode_of(name, venv)
        self._to_env = action_map(venv.single_action_space)
        first = _first_of(venv)
        spec = gymnasium_make.spec_of(
            name, space, venv.single_action_space, wanted,
            max_episode_steps=_time_limit_of(venv, first),
            engine=gymnasium_make.engine_of(first),
        )  # fmt: skip
        return replace(spec, seeded=self._takes_seeds(name))  # resets, so that comes last

    def _takes_seeds(self, name: str) -> bool:
        try:
            return takes_seeds(name, self._venv)
        except UserError:
            self._broken = True
            raise

    def _begin(self, **arguments: Any) -> Array:
        """``reset`` with these arguments: [N, *observation], finite and of its own."""
        with self._at_work():
            answer = self._venv.reset(**arguments)
        try:
            given, _ = answer
            obs = observations.as_rows(self._space, given, (self.spec.num_envs,))
        except (TypeError, ValueError) as error:
            raise self._refused("reset", "(observations, info)", error) from error
        check_finite(self.spec.id, "observation", obs)
        return obs

    def _begin_where(self, mask: Array) -> Array:
        """Next episodes of these environments; the others' rows are as they were."""
        self._episodes += mask
        seeds: list[int] | None = None
        if self.spec.seeded:
            counts = self._episodes.tolist()
            seeds = [episode_seed(s, k) for s, k in zip(self._seeds, counts, strict=True)]
        return self._begin(seed=seeds, options={"reset_mask": mask.copy()})

    def _read_step(self, answer: Any) -> tuple[Array, Array, Array, Array, Any]:
        n = self.spec.num_envs
        try:
            given, reward, end, cut, info = answer
            next_obs = observations.as_rows(self._space, given, (n,))
            reward = np.array(reward, np.float32)
            terminated = np.array(end, np.bool_)
            truncated = np.array(cut, np.bool_) & ~terminated
            for values in (reward, terminated, truncated):
                if values.shape != (n,):
                    raise ValueError(f"got an array of shape {values.shape}, not {(n,)}")
        except (TypeError, ValueError) as error:
            wanted = "(observations, rewards, terminated, truncated, info)"
            raise self._refused("step", wanted, error) from error
        return next_obs, reward, terminated, truncated, info

    def _put_finals(self, info: Any, into: Array) -> None:
        """The final observations of the rows that ended, which alone have any."""
        rows = np.flatnonzero(self._ended)
        try:
            finals, there = info["final_obs"], info["_final_obs"]
            if not np.asarray(there)[rows].all():
                raise ValueError(f"info['_final_obs'] is {np.asarray(there).tolist()}")
            if isinstance(finals, Mapping | tuple):  # of the whole batch, in the space's structure
                whole = observations.as_rows(self._space, finals, (self.spec.num_envs,))
                into[rows] = whole[rows]
            else:
                for i in rows:
                    into[i] = observations.as_rows(self._space, finals[i])
        except (TypeError, KeyError, IndexError, ValueError) as error:
            raise UserError(
                f"{self.spec.id} resets in the step that ends an episode, so info['final_obs'] and"
                " info['_final_obs'] must give the true final observation of each that ended"
                f" ({rows.tolist()}); {in_words(error)}"
            ) from error

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        broken, self._broken = self._broken, True
        try:
            yield
            self._broken = broken
        except (EOFError, ConnectionError) as error:
            raise EnvFailed(
                f"{self.spec.id}: a process that steps some of its environments is gone"
                f" ({in_words(error)})"
            ) from error

    def _refused(self, method: str, wanted: str, error: Exception) -> UserError:
        return UserError(
            f"{self.spec.id} does not keep the API of gymnasium's VectorEnv: its {method}() must"
            f" return {wanted} of {self.spec.num_envs} environments; {error}"
        )


def takes_seeds(name: str, venv: Vector) -> bool:
    """True if ``reset`` takes one seed for each environment, and it alone decides.

    Args:
        name: the environment's, for the message.
        venv: is reset on two lists of seeds; on one number, if it refuses a list.

    Raises:
        UserError: it can't be reset at all.
    """
    space, n = venv.single_observation_space, venv.num_envs
    # gymnasium's own two take a list, though VectorEnv.reset declares one number.
    seeds: Any = random_seeds("vector", count=n).tolist()
    try:
        once, _ = venv.reset(seed=seeds)
        ahead = observations.as_rows(space, once, (n,))
        again, _ = venv.reset(seed=seeds[::-1])
        return np.array_equal(ahead[::-1], observations.as_rows(space, again, (n,)))
    except Exception as error:  # it may refuse a list in any way
        refusal = in_words(error)
    try:
        venv.reset(seed=seeds[0])
    except Exception as error:
        raise UserError(
            f"{name} can't be reset: {refusal} (with one seed for all: {in_words(error)})"
        ) from error
    return False


def _name_of(env: str | Factory | Vector) -> str:
    if not isinstance(env, VectorEnv):
        return gymnasium_make.name_of(env)
    first = _first_of(env)
    spec = _registered(env) or (None if first is None else first.spec)
    return gymnasium_make.name_of(type(env.unwrapped)) if spec is None else spec.id


def _first_of(venv: Vector) -> gym.Env[Any, Any] | None:
    """One of its environments, if they are in this process and can be looked at."""
    inner = venv.unwrapped
    return inner.envs[0] if isinstance(inner, SyncVectorEnv) else None


def _made(env: str | Factory | Vector, num_envs: int, kwargs: Mapping[str, object]) -> Vector:
    if isinstance(env, VectorEnv):
        if kwargs:
            raise UserError(f"{_name_of(env)} exists already, so kwargs can't be given to it")
        return env
    factory: Any = env
    if isinstance(env, str):
        try:
            factory = (
                plugins.load(env) if gymnasium_make.is_path(env) else partial(gym.make_vec, env)
            )
        except UnknownPlugin as error:
            raise UserError(f"environment {error}") from error
    if not callable(factory):
        raise UserError(f"{_name_of(env)} is a {type(factory).__name__}, not a factory")
    gymnasium_make.import_before(env)
    with simulator_warnings.models_of(_name_of(env)):
        made = factory(num_envs=num_envs, **kwargs)
    if not isinstance(made, VectorEnv):
        raise UserError(
            f"{_name_of(env)} gave a {type(made).__name__}, but backend vector needs a"
            " gymnasium.vector.VectorEnv (backend gymnasium takes single environments)"
        )
    return made


def _mode_of(name: str, venv: Vector) -> AutoresetMode:
    said = venv.metadata.get("autoreset_mode")
    try:
        mode = AutoresetMode(said)
    except ValueError:
        raise UserError(
            f"{name} does not say how it resets: metadata['autoreset_mode'] is {said!r}; set it to"
            " a gymnasium.vector.AutoresetMode"
        ) from None
    inner = venv.unwrapped
    lossy = isinstance(inner, AsyncVectorEnv) and not inner.shared_memory
    if lossy and mode is AutoresetMode.NEXT_STEP:
        # Its workers go on to reset after a reset() that follows an end (gymnasium 1.4.0).
        raise UserError(
            f"{name} is an AsyncVectorEnv(shared_memory=False), whose reset() does not forget that"
            " an episode had ended; make it with shared_memory=True or autoreset_mode='SameStep'"
        )
    return mode


def _time_limit_of(venv: Vector, first: Any) -> int | None:
    if first is not None:
        return gymnasium_make.time_limit_of(first)
    spec = _registered(venv)
    return None if spec is None else spec.max_episode_steps


def _registered(venv: Vector) -> Registered | None:
    """Its entry in gymnasium's registry; others' VectorEnvs have a ``spec`` of another kind."""
    spec: Any = venv.spec
    return spec if isinstance(spec, Registered) else None

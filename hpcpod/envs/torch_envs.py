"""Batched environments in torch alone: thousands step as a few tensor operations.

They live on the device of the agent, and no step waits for it. The dynamics are in
``classic_control`` and ``toy``; here is what makes environments of them: episodes, time limits,
seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.envs.backend import TensorBackend, Wanted
from hpcpod.envs.classic_control import (
    Acrobot,
    CartPole,
    Dynamics,
    MountainCar,
    MountainCarContinuous,
    Move,
    Pendulum,
)
from hpcpod.envs.toy import Counter, Image, Memory
from hpcpod.envs.vec_env import (
    Discrete,
    EnvSpec,
    Step,
    episode_seeds,
    given_seeds,
)
from hpcpod.errors import Diverged, UserError
from hpcpod.plugins import suggest

CLASSIC: dict[str, type[Dynamics]] = {
    "Acrobot-v1": Acrobot,
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Pendulum-v1": Pendulum,
}
"""Gymnasium's tasks, by its ids."""

TOYS: dict[str, type[Dynamics]] = {
    "hpcpod/Counter-v0": Counter,
    "hpcpod/Image-v0": Image,
    "hpcpod/Memory-v0": Memory,
}
"""Tasks for tests. gymnasium does not know them."""

DYNAMICS = CLASSIC | TOYS
"""All tasks of backend torch, by id."""


class Batch(NamedTuple):
    """N environments in the middle of their episodes: all there is to know about them."""

    state: Tensor
    """float32 [variables, N]."""
    elapsed: Tensor
    """int64 [N], steps since the episode began."""
    seeds: Tensor
    """int64 [N], of the first episodes."""
    episodes: Tensor
    """int64 [N], which episode this is: 0, 1, ..."""


def begin(dynamics: Dynamics, seeds: Tensor) -> Tensor:
    """The first states of the episodes with these seeds [N], float32 [variables, N]."""
    return dynamics.begin(seeding.uniforms(seeds, dynamics.draws))


def transition(
    dynamics: Dynamics, time_limit: int, batch: Batch, action: Tensor
) -> tuple[Batch, Step]:
    """One step of N environments as a pure function, for any device and for ``torch.compile``.

    Of every row both are computed, how the episode goes on and how the next one begins: shapes
    are static, and nothing waits for a device to say which episodes have ended.
    """
    move, elapsed, truncated = _move(dynamics, time_limit, batch, action)
    ended = move.terminated | truncated
    episodes = batch.episodes + ended
    fresh = begin(dynamics, episode_seeds(batch.seeds, episodes))
    state = torch.where(ended, fresh, move.state)
    following = Batch(state, elapsed * ~ended, batch.seeds, episodes)
    obs, next_obs = dynamics.observe(state), dynamics.observe(move.state)
    valid = torch.ones_like(ended)  # on the device: a graph of the step makes nothing on the host
    return following, Step(obs, move.reward, move.terminated, truncated, next_obs, valid)


def transition_on_cpu(
    dynamics: Dynamics, time_limit: int, batch: Batch, action: Tensor
) -> tuple[Batch, Step]:
    """The same, bit by bit, where looking costs nothing: only rows that ended begin anew."""
    move, elapsed, truncated = _move(dynamics, time_limit, batch, action)
    state, episodes = move.state, batch.episodes
    next_obs = dynamics.observe(state)
    obs = next_obs.clone()
    rows = (move.terminated | truncated).nonzero()[:, 0]
    if len(rows):
        begun = episodes[rows] + 1
        fresh = begin(dynamics, seeding.successor(batch.seeds[rows], begun))
        # All of this step's own, so changed in place, but episodes: the batch before has them too.
        state.index_copy_(1, rows, fresh)
        elapsed.index_fill_(0, rows, 0)
        episodes = episodes.index_copy(0, rows, begun)
        obs.index_copy_(0, rows, dynamics.observe(fresh))
    following = Batch(state, elapsed, batch.seeds, episodes)
    valid = torch.ones_like(truncated)
    return following, Step(obs, move.reward, move.terminated, truncated, next_obs, valid)


def _move(
    dynamics: Dynamics, time_limit: int, batch: Batch, action: Tensor
) -> tuple[Move, Tensor, Tensor]:
    """The dynamics, then steps so far and who is truncated."""
    move = dynamics.step(batch.state, action)
    elapsed = batch.elapsed + 1
    cut = elapsed >= time_limit
    if move.truncated is not None:
        cut = cut | move.truncated
    return move, elapsed, cut & ~move.terminated


class TorchVecEnv(TensorBackend):
    """N environments that are tensors, resetting themselves in the step that ends an episode.

    The environment is one of ``DYNAMICS``; its arguments are ``max_episode_steps``, and the fields
    of the dynamics.

    On the CPU, an action, observation or reward that is not finite raises ``Diverged``. On another
    device that would mean to wait for it at every step: there a NaN goes on into the
    observation, the reward and the agent's losses, whose check meets it.
    """

    no_wrappers = (
        "wrappers are put around gymnasium's environments, which backend torch does not have; leave"
        " out env.wrappers, or use backend gymnasium"
    )

    _kind = Batch
    _batch: Batch | None = None

    def _make(self, wanted: Wanted) -> EnvSpec:
        check_known(wanted.env)
        kind, device = DYNAMICS[wanted.env], wanted.device
        self._dynamics, self._time_limit = _configured(wanted.env, kind, wanted.kwargs)
        self._on_cpu = torch.device(device).type == "cpu"
        return EnvSpec(
            id=wanted.env,
            observation=self._dynamics.observation,
            action=kind.action,
            num_envs=wanted.num_envs,
            device=device,
            max_episode_steps=self._time_limit,
            engine=f"hpcpod torch {torch.__version__}",
            action_bounds=kind.action_bounds,
        )

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        seeds = given_seeds(seeds, self.spec.num_envs).to(self.spec.device, torch.int64, copy=True)
        state, zeros = begin(self._dynamics, seeds), torch.zeros_like(seeds)
        self._batch = Batch(state, zeros, seeds, zeros.clone())
        return self._dynamics.observe(state)

    @torch.no_grad()
    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``.

        Raises:
            Diverged: on the CPU, an action, an observation or a reward is not finite.
            ValueError: the actions have another shape, or (on the CPU) there is no such choice.
        """
        self._check_step(self._batch, action)
        assert self._batch is not None
        if not self._on_cpu:
            self._batch, step = transition(self._dynamics, self._time_limit, self._batch, action)
            return step
        self._check_action(action)
        self._batch, step = transition_on_cpu(self._dynamics, self._time_limit, self._batch, action)
        self._check_finite("observation", step.next_obs)
        self._check_finite("reward", step.reward)
        return step

    def _check_action(self, action: Tensor) -> None:
        if isinstance(self.spec.action, Discrete):
            least, most = action.aminmax()
            if least < 0 or most >= self.spec.action.n:
                raise ValueError(
                    f"{self.spec.id} has the actions 0 to {self.spec.action.n - 1},"
                    f" got {int(least)} to {int(most)}"
                )
        else:
            self._check_finite("action", action)

    def _check_finite(self, field: str, values: Tensor) -> None:
        # One sum is a fifth of the price of isfinite().all(); it can only err on the safe side.
        if math.isfinite(values.sum().item()) or bool(values.isfinite().all()):
            return
        row = int((~values.isfinite()).reshape(len(values), -1).any(1).nonzero()[0])
        raise Diverged(
            f"{self.spec.id}: the {field} of environment {row} is not finite:"
            f" {values[row].tolist()}"
        )


def check_known(env: object) -> None:
    """See that there is such an environment.

    Raises:
        UserError: there is none.
    """
    if env not in DYNAMICS:
        named = repr(env) if isinstance(env, str) else str(env)
        raise UserError(
            f"backend torch has no {named}{suggest(str(env), list(DYNAMICS))} (it has"
            f" {', '.join(DYNAMICS)}; for others use backend gymnasium)"
        )


def _configured(
    name: str, kind: type[Dynamics], kwargs: Mapping[str, object]
) -> tuple[Dynamics, int]:
    """The dynamics with these arguments, and the steps of an episode at most."""
    defaults: dict[str, object] = {"max_episode_steps": kind.time_limit}
    arguments: Any = kind  # a dataclass, whose base is none
    defaults |= {f.name: f.default for f in dataclasses.fields(arguments)}
    for key, value in kwargs.items():
        if key not in defaults:
            raise UserError(
                f"{name} of backend torch has no argument '{key}' (env.kwargs may have:"
                f" {', '.join(defaults)})"
            )
        wanted = _wanted(defaults[key], value)
        if wanted:
            raise UserError(f"{name}: env.kwargs.{key} must be {wanted}, got {value!r}")
    own: dict[str, Any] = {k: v for k, v in kwargs.items() if k != "max_episode_steps"}
    limit: Any = kwargs.get("max_episode_steps", kind.time_limit)
    return kind(**own), limit


def _wanted(default: object, value: object) -> str:
    """What a value should be, if it is not of its default's kind."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, int):
        return "" if isinstance(value, int) and number and value > 0 else "a whole number from 1"
    return "" if number and math.isfinite(cast(float, value)) else "a number"

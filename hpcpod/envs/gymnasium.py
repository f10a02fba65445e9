"""Any gymnasium environment as a ``VecEnv``: stepped one after another in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcpod.envs import episode_state, gymnasium_make, observations
from hpcpod.envs.arrays import Array, action_map, as_step, check_finite, form_of, tensor
from hpcpod.envs.backend import Backend, Wanted, closed_if_refused
from hpcpod.envs.recording import ACTIONS, Recording
from hpcpod.envs.vec_env import (
    EnvSpec,
    State,
    Step,
    check_state_size,
    episode_seed,
    given_seeds,
)
from hpcpod.errors import UserError


class PreprocessVecEnv(Backend):
    """N gymnasium environments in a row, resetting themselves in the step that ends an episode.

    A plain loop: gymnasium's SyncVectorEnv was a quarter slower on 16 CartPoles (148k against
    190k steps/s) and does not give each episode a seed of its own.

    Observations become float32 (uint8 images stay), dictionaries and tuples one vector of it
    (``hpcpod.envs.observations`` says in which order); continuous actions are clipped to [-1, 1]
    and rescaled to the environment's bounds.
    """

    def _make(self, wanted: Wanted) -> EnvSpec:
        env, count = wanted.env, wanted.num_envs
        self._envs = gymnasium_make.build(env, count, wanted.wrappers, wanted.kwargs)
        first, name = self._envs[0], gymnasium_make.name_of(env)
        space = first.observation_space
        with closed_if_refused(self._envs):
            spec = gymnasium_make.spec_of(
                name, space, first.action_space, wanted,
                max_episode_steps=gymnasium_make.time_limit_of(first),
                engine=gymnasium_make.engine_of(first),
            )  # fmt: skip
        self._to_env = action_map(first.action_space)
        shape, self._dtype = form_of(spec.observation)
        self._shape = (count, *shape)
        self._structure = space if observations.is_structured(space) else None
        start = np.asarray(getattr(space, "start", 0))
        self._start = start if start.any() else None
        self._seeds: list[int] = []
        self._episodes: list[int] = []
        self._recording: Recording | None = None
        return spec

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        self._seeds = given_seeds(seeds, len(self._envs)).tolist()
        self._episodes = [-1] * len(self._envs)
        saveable = all(episode_state.can_save(env) for env in self._envs)
        self._recording = None if saveable else Recording(len(self._envs))
        obs = np.empty(self._shape, self._dtype)
        for i in range(len(self._envs)):
            self._next_episode(i, obs)
        check_finite(self.spec.id, "observation", obs)
        return tensor(obs, self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        self._check_step(self._seeds, action)
        n = len(self._envs)
        actions = self._to_env(action.detach().cpu().numpy())
        if self._recording is not None:
            self._recording.add(actions)
        next_obs = np.empty(self._shape, self._dtype)
        reward = np.empty(n, np.float32)
        terminated = np.zeros(n, np.bool_)
        truncated = np.zeros(n, np.bool_)
        ended = []
        for i, env in enumerate(self._envs):
            answer = env.step(actions[i])
            try:
                seen, reward[i], end, cut, _ = answer
                self._put(seen, next_obs, i)
            except (TypeError, ValueError) as error:
                raise self._refused("step", "reward, terminated, truncated, info", error) from error
            if end or cut:
                terminated[i] = end
                truncated[i] = not end
                ended.append(i)
        if self._start is not None:
            next_obs -= self._start
        check_finite(self.spec.id, "observation", next_obs)
        check_finite(self.spec.id, "reward", reward)
        obs = next_obs.copy()
        for i in ended:
            self._next_episode(i, obs)
        if ended:
            check_finite(self.spec.id, "observation", obs)
        return as_step(self.spec.device, obs, reward, terminated, truncated, next_obs)

    def state(self) -> State | None:
        """The state from which to go on; None before the first reset, or if an episode is too long.

        Of gymnasium's classic control, and of environments that have the two methods of
        ``episode_state.Saveable``, under no wrapper but the ones that ``gymnasium.make`` adds:
        physics, random generators and counters. Of all others the seed and the actions of the
        episode, up to ``recording.MOST_STEPS``.
        """
        if not self._seeds:
            return None
        saved = {"seeds": torch.tensor(self._seeds), "episodes": torch.tensor(self._episodes)}
        if self._recording is not None:
            episodes = self._recording.episodes()
            if episodes is None:
                return None
            saved.update({f"{i}/{ACTIONS}": torch.from_numpy(a) for i, a in enumerate(episodes)})
            return saved
        for i, env in enumerate(self._envs):
            saved.update({f"{i}/{name}": value for name, value in episode_state.save(env).items()})
        return saved

    def restore(self, state: State) -> Tensor | None:
        """Go on from a ``state()`` of an environment made with the same arguments.

        Episodes of which there are the actions are played again. Where one ends before it should,
        the next one begins.
        """
        check_state_size(state, self.spec)
        self._seeds, self._episodes = state["seeds"].tolist(), state["episodes"].tolist()
        if f"0/{ACTIONS}" in state:
            n = len(self._envs)
            return self._play_again([state[f"{i}/{ACTIONS}"].cpu().numpy() for i in range(n)])
        self._recording = None
        for i, env in enumerate(self._envs):
            prefix = f"{i}/"
            own = {
                name.removeprefix(prefix): value.cpu()
                for name, value in state.items()
                if name.startswith(prefix)
            }
            episode_state.load(env, own)
        return None

    def _play_again(self, episodes: Sequence[Array]) -> Tensor:
        """Play each episode in progress from its start; the observations to which that leads."""
        self._recording = Recording(len(self._envs))
        obs = np.empty(self._shape, self._dtype)
        played = []
        for i, actions in enumerate(episodes):
            self._episodes[i] -= 1
            self._next_episode(i, obs)
            played.append(actions if self._leads_on(i, actions, obs) else actions[:0])
        self._recording.restore(played)
        check_finite(self.spec.id, "observation", obs)
        return tensor(obs, self.spec.device)

    def _leads_on(self, i: int, actions: Array, obs: Array) -> bool:
        """True if environment i takes the actions; if it ends before, its next episode begins."""
        seen: Any = None
        for action in actions.copy():  # which it may keep, or write into
            seen, _, terminated, truncated, _ = self._envs[i].step(action)
            if terminated or truncated:
                self._next_episode(i, obs)
                return False
        if len(actions):
            self._put(seen, obs, i)
            if self._start is not None:
                obs[i] -= self._start
        return True

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()

    def _next_episode(self, i: int, into: Array) -> None:
        self._episodes[i] += 1
        if self._recording is not None:
            self._recording.begin(i)
        answer = self._envs[i].reset(seed=episode_seed(self._seeds[i], self._episodes[i]))
        try:
            obs, info = answer
            if not isinstance(info, Mapping):  # the two elements of a bare observation
                raise TypeError(f"its info is a {type(info).__name__}")
            self._put(obs, into, i)
            if self._start is not None:
                into[i] -= self._start
        except (TypeError, ValueError) as error:
            raise self._refused("reset", "info", error) from error

    def _put(self, seen: Any, into: Array, i: int) -> None:
        obs = seen if self._structure is None else observations.as_vector(self._structure, seen)
        # Of any other shape, numpy would stretch what fits several times.
        if np.shape(obs) != self._shape[1:]:
            raise ValueError(f"this one has shape {np.shape(obs)}")
        into[i] = obs

    def _refused(self, method: str, rest: str, error: Exception) -> UserError:
        return UserError(
            f"{self.spec.id} does not keep the API of gymnasium: its {method}() must return"
            f" (observation, {rest}) with an observation of shape {self._shape[1:]}; {error}"
        )

"""Stable-Baselines3's view of an environment of hpcpod's that autoresets within a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from hpcpod.envs.vec_env import Box, random_seeds
from hpcpod.envs.vec_env import VecEnv as Ours


class Adapter(VecEnv):  # type: ignore[misc]
    """All portfolios as one ``VecEnv``."""

    def __init__(self, env: Ours, seed: int) -> None:
        spec = env.spec
        assert isinstance(spec.observation, Box) and isinstance(spec.action, Box)
        self._env, self._begins = env, random_seeds("sb3", seed, count=spec.num_envs)
        observation = gym.spaces.Box(-np.inf, np.inf, spec.observation.shape, np.float32)
        action = gym.spaces.Box(-1.0, 1.0, spec.action.shape, np.float32)
        super().__init__(spec.num_envs, observation, action)

    def reset(self) -> np.ndarray:
        return self._env.reset(self._begins).numpy()

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = torch.from_numpy(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        step = self._env.step(self._actions)
        cut, over = step.truncated.numpy(), (step.terminated | step.truncated).numpy()
        infos: list[dict[str, Any]] = [{} for _ in over]
        for i in np.flatnonzero(over):
            infos[i]["terminal_observation"] = step.next_obs[i].numpy()
            infos[i]["TimeLimit.truncated"] = bool(cut[i])
        return step.obs.numpy(), step.reward.numpy(), over, infos

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [getattr(self._env, name, None)] * self.num_envs

    def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError(name)

    def env_method(self, name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError(name)

    def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return [seed] * self.num_envs

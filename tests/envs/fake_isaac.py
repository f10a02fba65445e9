"""Fakes of Isaac Gym's and Isaac Lab's environments: their steps, in their order, no simulator.

After IsaacGymEnvs 1.5.1 (``tasks/base/vec_task.py``: ``step``, ``reset``; tasks' own
``post_physics_step``) and Isaac Lab 2.3 (``envs/direct_rl_env.py``: ``step``). The "physics": an
environment's first number counts its simulated steps since its reset, its second one its episodes;
it falls after ``falls[i]`` steps of an episode.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor


class FakeVecTask:
    """Of Isaac Gym: late resets, one flag for all ends, live buffers."""

    num_obs = 2
    num_actions = 3

    def __init__(
        self, num_envs: int, device: str = "cpu", falls: list[int] | None = None, length: int = 8
    ) -> None:
        self.num_envs, self.device, self.max_episode_length = num_envs, device, length
        self.falls = torch.tensor((falls or [5, 100, 7]) * num_envs)[:num_envs]
        self.obs_buf = torch.zeros(num_envs, 2)
        self.rew_buf = torch.zeros(num_envs)
        self.reset_buf = torch.ones(num_envs, dtype=torch.long)
        self.progress_buf = torch.zeros(num_envs, dtype=torch.long)
        self.physics = torch.zeros(num_envs, 2)
        self.actions = torch.zeros(num_envs, 3)
        self.extras: dict[str, Tensor] = {}

    def reset(self) -> dict[str, Tensor]:
        """A buffer that nothing has filled yet."""
        return {"obs": self.obs_buf}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        self.actions = actions.clone()
        self.physics[:, 0] += 1
        self.progress_buf += 1
        ended = self.reset_buf.nonzero().squeeze(-1)
        if len(ended):
            self.reset_idx(ended)
        self.obs_buf[:] = self.physics
        self.rew_buf[:] = 1.0 + self.actions.sum(-1)
        late = self.progress_buf >= self.max_episode_length - 1
        fallen = self.physics[:, 0] >= self.falls
        self.reset_buf[:] = (late | fallen).long()
        self.extras["time_outs"] = late & (self.reset_buf != 0)
        return {"obs": self.obs_buf}, self.rew_buf, self.reset_buf, self.extras

    def reset_idx(self, ids: Tensor) -> None:
        self.physics[ids, 0] = 0
        self.physics[ids, 1] += 1
        self.progress_buf[ids] = 0
        self.reset_buf[ids] = 0


class FakeLabEnv:
    """Of Isaac Lab: what has ended is reset before anybody sees its last observation."""

    def __init__(
        self, num_envs: int, device: str = "cpu", falls: list[int] | None = None, length: int = 8
    ) -> None:
        self.num_envs, self.device, self.max_episode_length = num_envs, device, length
        plain = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.single_observation_space = gym.spaces.Dict({"policy": plain})
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.falls = torch.tensor((falls or [5, 100, 7]) * num_envs)[:num_envs]
        self.physics = torch.zeros(num_envs, 2)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.obs_buf = {"policy": torch.zeros(num_envs, 2)}
        self.reward_buf = torch.zeros(num_envs)
        self.closed = False

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._reset_idx(torch.arange(self.num_envs))
        self.obs_buf["policy"][:] = self.physics
        return self.obs_buf, {}

    def step(
        self, action: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        self.physics[:, 0] += 1
        self.episode_length_buf += 1
        terminated = self.physics[:, 0] >= self.falls
        late = self.episode_length_buf >= self.max_episode_length - 1
        self.reward_buf[:] = 1.0 + action.sum(-1)
        ended = (terminated | late).nonzero().squeeze(-1)
        if len(ended):
            self._reset_idx(ended)
        self.obs_buf["policy"][:] = self.physics
        return self.obs_buf, self.reward_buf, terminated, late, {}

    def close(self) -> None:
        self.closed = True

    def _reset_idx(self, ids: Tensor) -> None:
        self.physics[ids, 0] = 0
        self.physics[ids, 1] += 1
        self.episode_length_buf[ids] = 0

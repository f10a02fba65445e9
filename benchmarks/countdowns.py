"""A simulator whose step costs next to nothing: what ``remote_env.py`` steps, in numpy alone.

Old Pythons import it, so it needs no hpcpod.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Countdowns:
    """N episodes, of 500 to 999 steps, with the interface of a task of IsaacGymEnvs.

    An observation is 60 float32, of which the first one counts the episode's steps and the second
    one is the row. The reward is the first of 8 actions. Half of all episodes end by the time
    limit. What it gives are its own buffers.
    """

    num_obs = 60
    num_actions = 8
    max_episode_length = 1000

    def __init__(self, num_envs: int) -> None:
        rows = np.arange(num_envs)
        self.reset_buf: Any = np.ones(num_envs, np.bool_)
        self._obs: Any = np.zeros((num_envs, self.num_obs), np.float32)
        self._obs[:, 1] = rows
        self._steps: Any = np.zeros(num_envs, np.int32)
        self._lengths = 500 + rows % 500
        self._timed = rows % 2 == 0

    def step(self, actions: Any) -> Any:
        """One step of all; rows that had ended are reset, and their actions ignored."""
        self._steps += 1
        self._steps[self.reset_buf] = 0
        self._obs[:, 0] = self._steps
        np.greater_equal(self._steps, self._lengths, out=self.reset_buf)
        late = self.reset_buf & self._timed
        return {"obs": self._obs}, actions[:, 0], self.reset_buf, {"time_outs": late}

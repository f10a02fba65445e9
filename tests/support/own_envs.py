"""The source of modules that a user might write: environments, most with a fault."""

from __future__ import annotations

ENVS = """\
import time

import gymnasium
import numpy as np
from hpcpod.envs.gymnasium import PreprocessVecEnv


class Sound(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])
    reward = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action):
        return self._obs(), self.reward, False, False, {}

    def _obs(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


class NotANumber(Sound):
    reward = float("nan")


class Raising(Sound):
    def step(self, action):
        raise RuntimeError("the simulator is gone")


class Heavy(Sound):
    def __init__(self):
        time.sleep(0.07)


class Sleeping(Sound):
    seconds = 0.004
    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


class Slower(Sleeping):
    seconds = 0.03


class Aliasing(PreprocessVecEnv):
    kept = None

    def step(self, action):
        step = super().step(action)
        if self.kept is None:
            self.kept = step.next_obs
        return step._replace(next_obs=self.kept.copy_(step.next_obs))
"""

HANGING = """\
import time

import gymnasium


class Hanging(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 3).astype("float32"), {}

    def step(self, action):
        time.sleep(600)
"""

"""Toy tasks whose every number is known beforehand: for tests of training, storage and stepping.

Like classic control they are pure functions of batches, for any device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.envs.classic_control import Dynamics, Move
from hpcpod.envs.vec_env import Box, Discrete
from hpcpod.errors import UserError

_WORDS = 2.0**24
"""Number of values that ``seeding.uniforms`` draws from: times this, each is a whole number."""


@dataclass(frozen=True)
class Counter(Dynamics):
    """Counts its steps, up to a length that the seed decides; state (count, length, cut).

    The observation is (count, length), and the reward is the action, clipped to ±1. Half of the
    episodes terminate at their length, the other half are truncated there.
    """

    longest: int = 9
    """Lengths are 1, 2, ..., longest, equally often."""

    observation = Box((2,), 0.0, math.inf)
    action = Box((1,), -1.0, 1.0)
    action_bounds = (-1.0, 1.0)
    time_limit = 1000
    draws = 2

    def begin(self, uniform: Tensor) -> Tensor:
        """Count 0, length 1 + floor(u₀ longest), cut if u₁ >= 1/2."""
        length = 1 + (uniform[0] * self.longest).floor()
        return torch.stack((torch.zeros_like(length), length, (uniform[1] >= 0.5).float()))

    def observe(self, state: Tensor) -> Tensor:
        """(count, length), float32 [N, 2]."""
        return super().observe(state[:2])

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Count one more."""
        count, length, cut = state
        count = count + 1
        ended, cuts = count >= length, cut > 0
        reward = action[:, 0].clamp(-1, 1)
        return Move(torch.stack((count, length, cut)), reward, ended & ~cuts, ended & cuts)


@dataclass(frozen=True)
class Memory(Dynamics):
    """A cue at the first step is to be recalled at the last; state (steps so far, cue).

    The observation is (cue, asked): the cue, -1 or 1, is seen at the first step only and is 0
    after it, and asked is 1 at the last step and 0 before. An agent that does not remember
    gets 0 in the mean, one that does 1.
    """

    length: int = 10
    """Steps of an episode."""

    observation = Box((2,), (-1.0, 0.0), 1.0)
    action = Discrete(2)
    time_limit = 1_000_000
    draws = 1

    def begin(self, uniform: Tensor) -> Tensor:
        """The cue is -1 if u < 1/2, else 1."""
        cue = (uniform[0] >= 0.5).float() * 2 - 1
        return torch.stack((torch.zeros_like(cue), cue))

    def observe(self, state: Tensor) -> Tensor:
        """(cue, asked), float32 [N, 2]."""
        steps, cue = state
        return torch.stack((cue * (steps == 0), (steps == self.length - 1).float()), dim=1)

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Say -1 (0) or 1 (1); at the last step that brings 1 if it was the cue, else -1."""
        steps, cue = state
        terminated = steps >= self.length - 1
        reward = (action * 2 - 1) * cue * terminated
        return Move(torch.stack((steps + 1, cue)), reward, terminated)


@dataclass(frozen=True)
class Image(Dynamics):
    """A new image of noise at every step, nothing to gain; state (steps so far, key).

    Images are uint8 [channels, side, side] and can't be compressed: what stores them takes as
    much memory as it ever will. The reward is 1.
    """

    channels: int = 4
    """The default is the form of Atari's four stacked frames."""
    side: int = 84
    """Pixels of each row and of each column, an even number."""

    action = Discrete(4)
    time_limit = 100
    draws = 1

    def __post_init__(self) -> None:
        if self.side % 2:
            raise UserError(f"hpcpod/Image-v0: env.kwargs.side must be even, got {self.side}")

    @property
    def observation(self) -> Box:
        """As large as the arguments say."""
        return Box((self.channels, self.side, self.side), 0.0, 255.0, "uint8")

    def begin(self, uniform: Tensor) -> Tensor:
        """The key is all of u's bits, a whole number below 2^24."""
        key = uniform[0] * _WORDS
        return torch.stack((torch.zeros_like(key), key))

    def observe(self, state: Tensor) -> Tensor:
        """Four pixels are the bytes of each word w_j = mix(key ^ mix(t) ^ mix(j)), j = 0, 1, ...

        uint8 [N, channels, side, side]; the bytes are in the machine's order.
        """
        steps, key = state.long()
        j = torch.arange(self.channels * self.side**2 // 4, device=state.device)
        words = seeding.mix((key ^ seeding.mix(steps)).unsqueeze(1) ^ seeding.mix(j))
        pixels: Tensor = words.to(torch.int32).view(torch.uint8)
        return pixels.reshape(len(key), self.channels, self.side, self.side)

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Step, whatever the action is."""
        steps, key = state
        never = torch.zeros_like(key, dtype=torch.bool)
        return Move(torch.stack((steps + 1, key)), torch.ones_like(key), never)

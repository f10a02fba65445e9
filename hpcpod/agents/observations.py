"""Encoding of observations: an environment's rows as the input of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpcpod.agents.networks import Convolutions, bytes_scaled
from hpcpod.agents.normalizer import RunningNorm
from hpcpod.agents.operations import Program, Value
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space, State

SMALLEST_IMAGE = 3
"""Pixels of an image's shorter side: what a kernel of 3 x 3 needs."""


class Observations:
    """Prepares observations: vectors flat, choices one-hot, images channels first.

    Vectors are normalised by their running mean and variance, if asked to; these are a part of
    the agent's state. Images stay bytes: the network scales them, so that a replay is small.
    """

    def __init__(self, spec: EnvSpec, normalize: bool, device: str) -> None:
        """Prepare those of ``spec``; only Boxes of float32 are ever normalised."""
        self._space = spec.observation
        self.image = image_shape(spec.observation)
        """Channels, height and width of an image, or None."""
        self.size = _features(spec.observation)
        """Numbers in a prepared vector: F."""
        real = isinstance(self._space, Box) and self._space.dtype == "float32"
        self._norm = RunningNorm(self.size, device) if normalize and real else None

    def encoder(self, generator: torch.Generator) -> nn.Module:
        """A network from prepared observations to float32 [B, ``width``]: none for vectors."""
        return nn.Identity() if self.image is None else Convolutions(self.image, generator)

    @property
    def width(self) -> int:
        """Numbers that ``encoder`` gives."""
        return self.size if self.image is None else Convolutions.features

    def __call__(self, obs: Tensor) -> Tensor:
        """Prepare [B, *observation]: float32 [B, F], or uint8 [B, channels, height, width]."""
        space = self._space
        if self.image is not None:
            return self._channels_first(obs)
        if isinstance(space, Discrete):
            return F.one_hot(obs, space.n).float()
        if isinstance(space, MultiDiscrete):
            hot = [F.one_hot(part, n) for part, n in zip(obs.unbind(-1), space.nvec, strict=True)]
            return torch.cat(hot, dim=-1).float()
        flat = obs.reshape(obs.shape[0], -1)
        if space.dtype == "uint8":
            return flat.float() / 255.0
        return flat if self._norm is None else self._norm(flat)

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of ``__call__``; see ``Portable``."""
        space = self._space
        if self.image is not None:
            return self._write_channels_first(program, x)
        if not isinstance(space, Box):
            choices = space.nvec if isinstance(space, MultiDiscrete) else (space.n,)
            x = x if isinstance(space, MultiDiscrete) else program.add("reshape", x, shape=[1])
            return one_hot(program, x, [(0, n) for n in choices])
        if len(space.shape) != 1:
            x = program.add("reshape", x, shape=[self.size])
        if space.dtype == "uint8":
            return bytes_scaled(program, x)
        return x if self._norm is None else self._norm.write_operations(program, x)

    def learn(self, obs: Tensor) -> None:
        """Take raw observations [B, *observation] into the statistics."""
        if self._norm is not None and len(obs):
            self._norm.update(obs.reshape(obs.shape[0], -1))

    @property
    def learns(self) -> bool:
        """True if there are statistics to learn."""
        return self._norm is not None

    def state(self) -> State:
        """The statistics, if there are any."""
        return {} if self._norm is None else self._norm.state()

    def load(self, state: State) -> None:
        """Take over a ``state()``."""
        if self._norm is not None:
            self._norm.load(state)

    def _channels_first(self, obs: Tensor) -> Tensor:
        assert self.image is not None
        if obs.dim() == 3:
            return obs.unsqueeze(1)
        first, _, last = obs.shape[1:]
        return obs if first < last else obs.movedim(-1, 1)

    def _write_channels_first(self, program: Program, x: Value) -> Value:
        assert isinstance(self._space, Box) and self.image is not None
        if len(self._space.shape) == 2:
            return program.add("reshape", x, shape=list(self.image))
        first, _, last = self._space.shape
        return x if first < last else program.add("transpose", x, axes=[0, 3, 1, 2])


def one_hot(program: Program, x: Value, choices: Sequence[tuple[int, int]]) -> Value:
    """Operations that make choices [B, k] float32 [B, sum n].

    Args:
        program: gets them.
        x: the choices.
        choices: of each the first number and n.
    """
    column = [k for k, (_, n) in enumerate(choices) for _ in range(n)]
    code = [start + i for start, n in choices for i in range(n)]
    codes = {"column": np.asarray(column, np.int64), "code": np.asarray(code, np.int64)}
    return program.add("one_hot", x, arrays=codes)


def image_shape(space: Space) -> tuple[int, int, int] | None:
    """Channels, height and width, if the space is one of images: uint8 of two or three axes.

    The channels are the shortest axis of the first and the last; the last if both are equal.
    """
    if not (isinstance(space, Box) and space.dtype == "uint8"):
        return None
    if len(space.shape) == 2:
        shape = (1, *space.shape)
    elif len(space.shape) == 3:
        first, middle, last = space.shape  # gymnasium's images have their channels last
        shape = (first, middle, last) if first < last else (last, first, middle)
    else:
        return None
    return shape if min(shape[1:]) >= SMALLEST_IMAGE else None


def _features(space: Space) -> int:
    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, MultiDiscrete):
        return sum(space.nvec)
    return max(1, math.prod(space.shape))

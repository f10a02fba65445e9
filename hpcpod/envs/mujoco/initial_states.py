"""Draws of the first states of episodes: gymnasium's generators, or a batch of seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.envs.arrays import Array


class GeneratorDraws:
    """Random numbers of one episode, [size], as gymnasium's generator of its seed draws them."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def uniform(self, low: float, high: float, size: int) -> Array:
        """Uniform on [low, high)."""
        return self._generator.uniform(low, high, size)

    def normal(self, size: int) -> Array:
        """Of mean 0 and variance 1."""
        return self._generator.standard_normal(size)

    def uniform_where(
        self, low: Sequence[float], high: Sequence[float], accepts: Callable[[Any], Any]
    ) -> Array:
        """Uniform on the points of a box that are accepted: tries until one is.

        Args:
            low: of the box, a number for each dimension.
            high: likewise.
            accepts: of points [..., dimensions], which will do: bool [...].
        """
        while True:
            point = self._generator.uniform(low, high)
            if accepts(point):
                return point

    def each(self, values: Any) -> Any:
        """The same values [size] for each episode, in memory of their own."""
        return np.array(values)


class SeededDraws:
    """The same of N episodes at once, [N, size]: functions of each seed alone.

    float32 on the device of the seeds; static shapes, and nothing waits for the device. The numbers
    have the distributions of gymnasium's and are not gymnasium's.
    """

    _TRIES = 32
    """Of which the first that is accepted counts; when half of a box is, none of them is once in
    4e9 episodes, and then the first one counts."""

    def __init__(self, seeds: Tensor) -> None:
        """Begin at the first draw of each of the seeds, int64 [N]."""
        self._seeds = seeds
        self._used = 0

    def uniform(self, low: float, high: float, size: int) -> Tensor:
        """Uniform on [low, high)."""
        return low + (high - low) * self._next(size).T.contiguous()

    def normal(self, size: int) -> Tensor:
        """Of mean 0 and variance 1, by the transform of Box and Muller (1958)."""
        radius, angle = self._next(2 * size).T.contiguous().chunk(2, dim=1)
        return (-2 * (1 - radius).log()).sqrt() * (2 * math.pi * angle).cos()

    def uniform_where(
        self, low: Sequence[float], high: Sequence[float], accepts: Callable[[Any], Any]
    ) -> Tensor:
        """As ``GeneratorDraws.uniform_where``."""
        unit = self._next(self._TRIES * len(low)).reshape(self._TRIES, len(low), -1)
        axes = [a + (b - a) * unit[:, i] for i, (a, b) in enumerate(zip(low, high, strict=True))]
        points = torch.stack(axes, dim=-1)
        first = accepts(points).to(torch.uint8).argmax(0)  # of equals the first, says torch
        return points.take_along_dim(first[None, :, None], 0)[0]

    def each(self, values: Tensor) -> Any:
        """The same values [size] for each episode."""
        return values.repeat(len(self._seeds), 1)

    def _next(self, count: int) -> Tensor:
        """Uniform on [0, 1), [count, N]."""
        drawn = seeding.uniforms(self._seeds, count, self._used)
        self._used += count
        return drawn


Draws = GeneratorDraws | SeededDraws
"""First states of one episode, or of N at once."""

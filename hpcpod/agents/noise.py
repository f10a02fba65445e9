"""Exploration noise that is correlated in time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State

RATIO = 4
"""Of one process's time constant to that of the next one."""


class Noise:
    """Standard normal numbers for every environment, pink or white.

    Pink noise, whose power falls as 1 / frequency, pushes into one direction for long enough to
    get somewhere, and yet tries all: over many tasks it explores better than white noise and than
    noise of one time constant (Eberhard et al. 2023, "Pink noise is all you need").

    It is made step by step, without an episode's length: the sum of K independent processes
    x ← φ x + √(1 - φ²) ε of variance 1/K, with the time constants 1 / (1 - φ) = 1, 4, 16 and so on
    (processes spaced evenly by the logarithm of their time constants add up to 1 / frequency:
    van der Ziel 1950). What is drawn at one step is standard normal, whatever the memory.
    """

    def __init__(self, num_envs: int, size: int, memory: int, generator: torch.Generator) -> None:
        """Draw where the processes begin.

        Args:
            num_envs: N.
            size: numbers of one action, A.
            memory: steps; no time constant is longer. 1: white noise.
            generator: from which all is drawn; its device is that of the noise.
        """
        count = 1 + int(math.log(memory, RATIO) + 1e-9) if memory > 1 else 0
        device = generator.device
        self.generator = generator
        self._keep = 1 - torch.tensor([1 / RATIO**k for k in range(count)], device=device)
        self._keep = self._keep.view(-1, 1, 1)
        self._add = (1 - self._keep.square()).sqrt()
        self._processes = torch.empty(count, num_envs, size, device=device)
        self.begin()

    def begin(self) -> None:
        """Begin anew, in place."""
        self._processes.normal_(generator=self.generator)

    def draw(self, like: Tensor) -> Tensor:
        """The next numbers, of the shape and on the device of ``like``, float32 [N, ...]."""
        if not len(self._processes):
            return torch.empty_like(like).normal_(generator=self.generator)
        fresh = torch.empty_like(self._processes).normal_(generator=self.generator)
        self._processes.mul_(self._keep).addcmul_(fresh, self._add)
        return self._processes.sum(0).div_(len(self._processes) ** 0.5).view(like.shape)

    def draw_uniform(self, like: Tensor) -> Tensor:
        """Numbers that are uniform in [-1, 1] each by itself, correlated like the noise."""
        if not len(self._processes):
            return torch.empty_like(like).uniform_(-1.0, 1.0, generator=self.generator)
        return torch.erf(self.draw(like) / math.sqrt(2))

    def state(self) -> State:
        """The processes' present values, float32 [K, N, A]; nothing of white noise."""
        return {"noise": self._processes.clone()} if len(self._processes) else {}

    def load(self, state: State) -> None:
        """Go on from a ``state()``; begin anew from one of other environments or older versions."""
        processes = state.get("noise")
        if processes is None or processes.shape != self._processes.shape:
            self.begin()
        else:
            self._processes.copy_(processes)

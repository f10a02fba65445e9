"""An agent that balances CartPole's pole until it has learned too often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.envs.vec_env import EnvSpec, State


@dataclass(frozen=True)
class FadingConfig:
    """Hyperparameters."""

    good_for: int = 0
    """Updates after which it always pushes to the left."""


class Fading:
    """Pushes to where the pole falls, and after ``good_for`` updates to the left."""

    Config: ClassVar[type[FadingConfig]] = FadingConfig
    FUSION: ClassVar[dict[str, str]] = {"updates": "max"}

    def __init__(self, spec: EnvSpec, config: FadingConfig, seed: int, device: str = "cpu") -> None:
        self._good_for = config.good_for
        self._updates = torch.tensor(0)

    @property
    def horizon(self) -> int:
        return 8

    def make_buffer(self) -> RolloutBuffer:
        return RolloutBuffer()

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        falls_right = obs[:, 2] + obs[:, 3] > 0
        return (falls_right & (self._updates <= self._good_for)).long()

    def update(self, buffer: Buffer) -> Metrics:
        buffer.restore(buffer.rows, ())
        self._updates = self._updates + 1
        return {}

    def state(self) -> State:
        return {"updates": self._updates.clone()}

    def load(self, state: State) -> None:
        self._updates = state["updates"].clone()

    def reseed(self, seed: int) -> None:
        pass

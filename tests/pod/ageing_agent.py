"""An agent whose actions tell how old its weights are; it knows nothing of pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.envs.vec_env import EnvSpec, State


@dataclass(frozen=True)
class AgeingConfig:
    """Hyperparameters."""

    horizon: int = 8
    """Steps that each environment contributes to a rollout."""


class Ageing:
    """Acts by 2^-12 times its updates; tells of each rollout how old the weights were."""

    Config: ClassVar[type[AgeingConfig]] = AgeingConfig
    FUSION: ClassVar[dict[str, str]] = {"acted": "max"}

    def __init__(self, spec: EnvSpec, config: AgeingConfig, seed: int, device: str = "cpu") -> None:
        self._config, self._spec = config, spec
        self._state = {
            "network/updates": torch.zeros(()),
            "acted": torch.tensor(0),
            "rng": torch.tensor(seed),
        }

    @property
    def horizon(self) -> int:
        return self._config.horizon

    def make_buffer(self) -> RolloutBuffer:
        return RolloutBuffer()

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        if explore:
            self._state["acted"] = self._state["acted"] + len(obs)
            self._state["rng"] = self._state["rng"] + 1
        return self._state["network/updates"].expand(len(obs), 1) / 4096

    def update(self, buffer: Buffer) -> Metrics:
        rollout = buffer.segment(buffer.oldest, buffer.rows)
        buffer.restore(buffer.rows, ())
        age = self._state["network/updates"] - 4096 * rollout["action"]
        metrics = {
            "least": float(age.min()), "most": float(age.max()),
            "acted": float(self._state["acted"]), "rng": float(self._state["rng"]),
        }  # fmt: skip
        self._state["network/updates"] = self._state["network/updates"] + 1
        return metrics

    def state(self) -> State:
        return {name: tensor.clone() for name, tensor in self._state.items()}

    def load(self, state: State) -> None:
        self._state = {name: state[name].clone() for name in self._state}

    def reseed(self, seed: int) -> None:
        self._state["rng"] = torch.tensor(seed % 1000)

"""Agents that something is wrong with, and one that is only unusual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.vec_env import EnvSpec


class RaisesWhenMade(PPO):
    """Its constructor fails."""

    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        raise KeyError("weights")


class NoAgent:
    """It can be made, and that is all."""

    Config = PPOConfig

    def __init__(self, *arguments: Any) -> None:
        pass


class FixedHorizon(PPO):
    """Its horizon is no hyperparameter."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        learning_rate: float = 1e-3

    def __init__(self, spec: EnvSpec, config: Any, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, PPOConfig(config.learning_rate), seed, device)

    @property
    def horizon(self) -> int:
        return 50

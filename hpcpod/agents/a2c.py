"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous.

It is PPO that takes one step of its optimizer for each rollout (Huang et al. 2022,
arXiv:2205.09123).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpcpod.agents.ppo import PPO
from hpcpod.agents.ppo_config import PPOConfig


@dataclass(frozen=True)
class A2CConfig(PPOConfig):
    """Hyperparameters of A2C: PPO's; ``clip`` and ``target_kl`` have no effect while it
    takes one step for each rollout, as by default. In a pipeline ``clip`` has: the rollout is one
    of older weights. Advantages are normalised, unlike the paper's: then one step size fits
    rewards of any scale.
    """

    learning_rate: float = 1e-3
    """Step size of Adam."""
    epochs: int = 1
    """Passes over each rollout."""
    minibatch_size: int = 2**31
    """Steps in one gradient update: all."""
    horizon: int = 8
    """Steps that each environment contributes to a rollout."""


class A2C(PPO):
    """A2C for discrete, multi-discrete and continuous actions."""

    Config: ClassVar[type[PPOConfig]] = A2CConfig
    name: ClassVar[str] = "a2c"

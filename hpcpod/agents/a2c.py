"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous.

It is PPO that takes one step of its optimizer for each rollout (Huang et al. 2022,
arXiv:2205.09123).
"""

from __future__ import annotations

from typing import ClassVar

from hpcpod.agents.configs import A2CConfig as A2CConfig
from hpcpod.agents.configs import PPOConfig
from hpcpod.agents.ppo import PPO


class A2C(PPO):
    """A2C for discrete, multi-discrete and continuous actions."""

    Config: ClassVar[type[PPOConfig]] = A2CConfig
    name: ClassVar[str] = "a2c"

"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous.

It is PPO that takes one step of its optimizer for each rollout (Huang et al. 2022,
arXiv:2205.09123).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hpcpod.agents.ppo import PPO
from hpcpod.agents.ppo_config import PPOConfig
from hpcpod.config.space import Choice, LogUniform


@dataclass(frozen=True)
class A2CConfig(PPOConfig):
    """Hyperparameters of A2C: PPO's; ``clip`` and ``target_kl`` have no effect while it
    takes one step for each rollout, as by default. In a pipeline ``clip`` has: the rollout is one
    of older weights. Advantages are in units of the returns' standard deviation, so that
    the step does not depend on the scale of rewards; a rollout is too short to normalise them by
    itself.

    With these defaults four of ten seeds ended below 0 on LunarLander-v3, and Pendulum-v1 was not
    learned (benchmarks/RESULTS.md).
    """

    # zoo, tuned (hyperparams/a2c.yml): 3.8e-4 to 2e-3
    learning_rate: float = field(default=1.5e-3, metadata={"search": LogUniform(3e-4, 5e-3)})
    """Step size of Adam."""
    anneal: bool = field(default=True, metadata={"absent": False})
    """See ``RateConfig``; here it does, unless told otherwise."""
    gamma: float = field(
        default=0.995, metadata={"near_one": True, "search": Choice((0.9, 0.98, 0.99, 0.995))}
    )
    """Discount factor, in [0, 1]."""
    entropy: float = 0.003
    """Weight of the entropy bonus: larger keeps exploring for longer."""
    epochs: int = 1
    """Passes over each rollout."""
    minibatch_size: int = 2**31
    """Steps in one gradient update: all."""
    horizon: int = field(default=5, metadata={"search": Choice((5, 8, 16, 32))})
    """Steps that each environment contributes to a rollout."""
    normalize_advantage: bool = False  # blew up the noise of 64 steps: LunarLander hovered
    """Scale the advantages of each minibatch to mean 0 and variance 1."""
    # White noise left 3 of 10 seeds worse than standing still on MountainCarContinuous.
    noise_memory: int = field(default=16, metadata={"absent": 1})
    """Steps over which the noise of continuous actions is correlated at most
    (``agents/noise.py``). 1: white noise, as in the paper."""


class A2C(PPO):
    """A2C for discrete, multi-discrete and continuous actions."""

    Config: ClassVar[type[PPOConfig]] = A2CConfig
    name: ClassVar[str] = "a2c"

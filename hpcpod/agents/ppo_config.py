"""The hyperparameters of PPO and A2C."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from hpcpod.agents import checks
from hpcpod.agents.schedules import RateConfig
from hpcpod.config.space import Choice, LogUniform


@dataclass(frozen=True)
class PPOConfig(RateConfig):
    """Hyperparameters of PPO.

    The defaults are Stable-Baselines3's, with a rollout of 2,048 steps from 8 environments instead
    of one, and observations and returns normalised, so that no scale needs a word: with raw
    returns one seed on Pendulum-v1 stood at -947 after 150,000 steps (benchmarks/RESULTS.md).
    Ranges of ``search`` hold what rl-baselines3-zoo has tuned (hyperparams/ppo.yml) and lie in what
    its sampler draws from (rl_zoo3/hyperparams_opt.py), unless something else is said.
    """

    # zoo, tuned: 1.9e-5 to 1e-3; Andrychowicz et al. 2021 (arXiv:2006.05990), section 3.6: 3e-4
    learning_rate: float = field(default=3e-4, metadata={"search": LogUniform(5e-5, 2e-3)})
    """Step size of Adam."""
    # zoo, tuned: 0.9 (Pendulum) to 0.9999 (MountainCarContinuous); 0.999 on LunarLander
    gamma: float = field(
        default=0.99,
        metadata={"near_one": True, "search": Choice((0.9, 0.95, 0.98, 0.99, 0.995, 0.999))},
    )
    """Discount factor, in [0, 1]."""
    # zoo, tuned: 0.8 (CartPole) to 0.98 (LunarLander)
    gae_lambda: float = field(
        default=0.95, metadata={"near_one": True, "search": Choice((0.8, 0.9, 0.95, 0.98))}
    )
    """λ of generalised advantage estimation, in [0, 1]: 0 trusts the critic, 1 the returns."""
    clip: float = field(default=0.2, metadata={"search": Choice((0.1, 0.2, 0.3))})
    """ε: a gradient that moves a probability ratio beyond 1 ± ε is cut."""
    anneal_clip: bool = False
    """Lower ``clip`` linearly, by the schedule that ``anneal`` or ``anneal_steps`` is for the
    learning rate (which need not fall), to a hundredth."""
    value_clip: float = 0.0
    """The same for the critic's change, in units of reward, of scaled reward where rewards are
    normalised, or of the returns' standard deviation where these are; 0 leaves it free."""
    # zoo, tuned: 0 to 0.01
    entropy: float = field(default=0.0, metadata={"search": Choice((0.0, 0.001, 0.003, 0.01))})
    """Weight of the entropy bonus: larger keeps exploring for longer."""
    value_coef: float = 0.5  # as Stable-Baselines3; CleanRL halves the square once more
    """Weight of the critic's loss."""
    max_grad_norm: float = 0.5
    """The gradient is scaled down to this Euclidean norm."""
    target_kl: float = 0.0  # Stable-Baselines3: after each minibatch, at 1.5 times as much
    """Stop the epochs of an update when the mean KL divergence passes this; 0 never stops."""
    epochs: int = field(default=10, metadata={"search": Choice((4, 10, 20))})
    """Passes over each rollout."""
    minibatch_size: int = field(default=64, metadata={"search": Choice((64, 128, 256))})
    """Steps in one gradient update."""
    # 128, with minibatches of 256 and a rate of 1e-3, fell back on CartPole in 3 of 6 seeds.
    # zoo, tuned: rollouts of 256 (CartPole) to 16,384 steps (LunarLander), of 1 to 16 environments
    horizon: int = field(default=256, metadata={"search": Choice((32, 64, 128, 256, 512, 1024))})
    """Steps that each environment contributes to a rollout."""
    normalize_advantage: bool = True
    """Scale the advantages of each minibatch to mean 0 and variance 1. If not, they are in units of
    reward, or of the returns' standard deviation where these are normalised."""
    normalize_obs: bool = field(default=True, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""
    normalize_rewards: bool = field(default=False, metadata={"structural": True})
    """Divide rewards by the running standard deviation of the discounted return and clip them to
    ±10, as VecNormalize and NormalizeReward do. Scores stay in units of reward."""
    normalize_returns: bool = field(default=True, metadata={"structural": True})
    """Have the critic learn returns that are scaled to mean 0 and variance 1."""
    hidden: int = field(default=64, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers of the policy, and as many of the critic."""
    activation: Literal["tanh", "relu"] = field(default="tanh", metadata={"structural": True})
    """Function after each hidden layer."""
    h_term: float = 0.0
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none."""
    h_steps: int = 4
    """Steps in a run of the Hamiltonian term."""
    # -1 took HalfCheetah-v5 from 1,307 to 3,506 at 300,000 steps (one seed).
    log_std_init: float = field(
        default=0.0,
        metadata={"initial": True, "search": Choice((-1.0, 0.0)), "actions": "continuous"},
    )
    """Log of the standard deviation with which continuous actions begin."""
    noise_memory: int = field(
        default=1, metadata={"absent": 1, "search": Choice((1, 16)), "actions": "continuous"}
    )
    """Steps over which the noise of continuous actions is correlated at most
    (``agents/noise.py``). 1: white noise, as in the paper. 16 found MountainCarContinuous' flag
    where that did not, and walked worse (benchmarks/RESULTS.md)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.each(self, checks.positive, "clip max_grad_norm")
        checks.each(self, checks.fraction, "gamma gae_lambda")
        checks.each(self, checks.at_least, "value_clip entropy value_coef target_kl", 0)
        checks.each(self, checks.at_least, "epochs minibatch_size horizon noise_memory", 1)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps)
        checks.one_of("activation", self.activation, ("tanh", "relu"))
        if not math.isfinite(self.log_std_init):
            raise ValueError(f"log_std_init must be finite, got {self.log_std_init}")

"""Tasks of ``benchmarks/tournament.py``: what is trained, from which ranges, for how long.

The ranges are ARLBench's (Becktepe et al. 2024, arXiv 2409.18827; as its published tables draw
them), by hpcpod's names. Left out are its prioritised replay, its reward scale and its switch for
target networks; ranges that contain 0 begin a little above where hpcpod wants a positive number.
What has no range is hpcpod's default, but for what ``fixed`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Space = Mapping[str, Mapping[str, Any]]
"""A range by each hyperparameter's name, as a configuration of hpcpod writes it."""

TRAININGS = 32
"""A budget in full trainings, as ARLBench's optimisers had it."""

_RATE = {"learning_rate": {"log_uniform": [1e-6, 1e-1]}}
PPO: Space = {
    **_RATE,
    "minibatch_size": {"choice": [128, 256, 512]},
    "entropy": {"uniform": [0.0, 0.5]},
    "gae_lambda": {"uniform": [0.8, 0.9999]},
    "clip": {"uniform": [0.001, 0.5]},
    "value_clip": {"uniform": [0.001, 0.5]},
    "value_coef": {"uniform": [0.0, 1.0]},
    "max_grad_norm": {"uniform": [0.001, 1.0]},
    "normalize_advantage": {"choice": [False, True]},
}
DQN: Space = {
    **_RATE,
    "batch_size": {"choice": [64, 128, 256]},
    "buffer_size": {"int": [1024, 120_000]},
    "learning_starts": {"int": [1, 2048]},
    "epsilon_start": {"uniform": [0.5, 1.0]},
    "epsilon_end": {"uniform": [0.001, 0.2]},
    "target_interval": {"int": [1, 100]},
}
SAC: Space = {
    **_RATE,
    "batch_size": {"choice": [64, 128, 256]},  # ARLBench: four times as many
    "buffer_size": {"int": [1024, 120_000]},
    "learning_starts": {"int": [128, 2048]},  # ARLBench: to 8,192, more than these trainings have
    "tau": {"uniform": [0.01, 1.0]},
}
LANDER: Space = {  # those that hpcpod's PPO declares itself: rl-zoo's corner is inside
    "learning_rate": {"log_uniform": [5e-5, 2e-3]},
    "gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
    "gae_lambda": {"choice": [0.8, 0.9, 0.95, 0.98]},
    "clip": {"choice": [0.1, 0.2, 0.3]},
    "entropy": {"choice": [0.0, 0.001, 0.003, 0.01]},
    "epochs": {"choice": [4, 10, 20]},
    "minibatch_size": {"choice": [64, 128, 256]},
    "horizon": {"choice": [32, 64, 128, 256, 512, 1024]},
}
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"horizon": 128},
    "dqn": {"updates_per_step": 0.125},
    "sac": {"hidden": 64, "updates_per_step": 0.5},
}
"""A shorter rollout of PPO that holds the largest minibatch; cheaper updates of the others."""


@dataclass(frozen=True)
class Long:
    """One long run with hyperparameters that others have tuned for the task."""

    algorithm: str
    hyperparameters: Mapping[str, Any]
    num_envs: int = 8


@dataclass(frozen=True)
class Task:
    """A task, equal for all arms."""

    name: str
    env: str
    """A gymnasium id."""
    spaces: Mapping[str, Space]
    """The ranges of each algorithm."""
    training: int
    """Environment steps of one full training: of the budget a ``TRAININGS``-th part."""
    long: Long
    low: float
    """Mean return of random actions, 0 on the tables' common scale."""
    high: float
    """Mean return of a policy that has learnt the task, 1 on that scale."""
    rounds: int = 4
    """Rounds in one full training: how often it is scored."""
    episodes: int = 1000
    """Fresh episodes on which the delivered policy is scored."""
    num_envs: int = 8
    seconds: float = 90.0
    """The budget in wall time, on two slots."""
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _FIXED)

    @property
    def round_steps(self) -> int:
        """Environment steps of a round."""
        return self.training // self.rounds

    @property
    def searched(self) -> Long:
        """The long run with others' values of what has a range here; the network, the number of
        updates and all else are as every arm has them."""
        name = self.long.algorithm
        tuned = self.long.hyperparameters
        values = {key: tuned[key] for key in self.spaces[name] if key in tuned}
        return Long(name, {**self.fixed[name], **values}, self.num_envs)

    def scaled(self, score: float) -> float:
        """A mean return on the common scale."""
        return (score - self.low) / (self.high - self.low)

    def agents(self) -> dict[str, dict[str, Any]]:
        """``agents`` of a configuration: what is fixed and what has a range."""
        return {name: {**self.fixed[name], **space} for name, space in self.spaces.items()}


_WIDE = {"hidden": 256}
# rl-baselines3-zoo's tuned hyperparameters (hyperparams/*.yml at 22e3ff2, as in gates/zoo.py) by
# hpcpod's names; generalised state-dependent exploration (Pendulum, MountainCar) has none there.
# Pendulum's SAC is configs/classic/pendulum.yaml's, with the zoo's rate: as good at a tenth of the
# time. Hopper's rollout of 512 steps is by 4 environments instead of one.
_CARTPOLE_PPO = {
    "horizon": 32, "minibatch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "epochs": 20,
    "learning_rate": 1e-3, "anneal": True, "clip": 0.2, "anneal_clip": True,
    "normalize_obs": False, "normalize_returns": False,
}  # fmt: skip
_CARTPOLE_DQN = {
    "learning_rate": 2.3e-3, "anneal": False, "batch_size": 64, "buffer_size": 100_000,
    "learning_starts": 1_000, "gamma": 0.99, "target_interval": 128, "horizon": 32,
    "updates_per_step": 0.5, "epsilon_fraction": 0.16, "epsilon_end": 0.04, "double": False,
    "n_steps": 1, **_WIDE,
}  # fmt: skip
_ACROBOT_DQN = {
    "learning_rate": 6.3e-4, "anneal": False, "batch_size": 128, "buffer_size": 50_000,
    "learning_starts": 128, "gamma": 0.99, "target_interval": 250, "horizon": 4,
    "updates_per_step": 1.0, "epsilon_fraction": 0.12, "epsilon_end": 0.1, "double": False,
    "n_steps": 1, **_WIDE,
}  # fmt: skip
_PENDULUM_PPO = {
    "horizon": 1024, "minibatch_size": 64, "gae_lambda": 0.95, "gamma": 0.9, "epochs": 10,
    "learning_rate": 1e-3, "clip": 0.2, "normalize_obs": False, "normalize_returns": False,
}  # fmt: skip
_PENDULUM_SAC = {
    "learning_rate": 1e-3, "gamma": 0.98, "tau": 0.02, "hidden": 64, "horizon": 8,
    "updates_per_step": 0.5,
}  # fmt: skip
_CAR_SAC = {
    "learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "temperature": 0.1,
    "horizon": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 512, "hidden": 64,
    "updates_per_step": 0.5,
}  # fmt: skip
_LANDER_PPO = {
    "horizon": 1024, "minibatch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "epochs": 4,
    "entropy": 0.01, "learning_rate": 3e-4, "clip": 0.2, "normalize_obs": False,
    "normalize_returns": False,
}  # fmt: skip
_HOPPER_PPO = {
    "minibatch_size": 32, "horizon": 128, "gamma": 0.999, "learning_rate": 9.80828e-5,
    "entropy": 0.00229519, "clip": 0.2, "epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7,
    "value_coef": 0.835671, "activation": "relu", "log_std_init": -2.0, **_WIDE,
}  # fmt: skip

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("cartpole-ppo", "CartPole-v1", {"ppo": PPO}, 4_096,
             Long("ppo", _CARTPOLE_PPO), 22.0, 500.0),
        Task("cartpole-dqn", "CartPole-v1", {"dqn": DQN}, 8_192,
             Long("dqn", _CARTPOLE_DQN), 22.0, 500.0),
        Task("acrobot-dqn", "Acrobot-v1", {"dqn": DQN}, 8_192,
             Long("dqn", _ACROBOT_DQN), -500.0, -75.0),
        Task("pendulum-ppo", "Pendulum-v1", {"ppo": PPO}, 32_768,
             Long("ppo", _PENDULUM_PPO, 4), -1220.0, -150.0),
        Task("pendulum-sac", "Pendulum-v1", {"sac": SAC}, 4_096,
             Long("sac", _PENDULUM_SAC, 4), -1220.0, -150.0),
        Task("car-sac", "MountainCarContinuous-v0", {"sac": SAC}, 4_096,
             Long("sac", _CAR_SAC, 1), -33.0, 95.0, episodes=200),
        # 32 trainings are 8 pods of 12 rounds
        Task("lander-ppo", "LunarLander-v3", {"ppo": LANDER}, 61_440,
             Long("ppo", _LANDER_PPO, 16), -180.0, 270.0, rounds=3, num_envs=16,
             seconds=360.0, fixed={"ppo": {}}),
        Task("hopper-ppo", "Hopper-v5", {"ppo": PPO}, 32_768,
             Long("ppo", _HOPPER_PPO, 4), 18.0, 2500.0, episodes=200),
        Task("pendulum-mixed", "Pendulum-v1", {"ppo": PPO, "sac": SAC}, 8_192,
             Long("sac", _PENDULUM_SAC, 4), -1220.0, -150.0),
    )
}  # fmt: skip
"""Tasks by name, the quick ones first."""

"""The rows of the comparison: the settings that every contender gets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One task for one algorithm; whatever stands here is equal for all contenders."""

    name: str
    algorithm: str
    """``ppo``, ``sac``, ``td3`` or ``dqn``."""
    env: str
    num_envs: int
    horizon: int
    """Steps of each environment between two rounds of updates."""
    batch: int
    """Transitions in one gradient update."""
    hidden: int
    """Units of each of two hidden layers, in every network."""
    learning_rate: float
    """Of Adam, for all networks."""
    activation: str = "relu"
    epochs: int = 0
    """PPO: passes over each rollout."""
    updates: int = 0
    """Others: gradient updates in each round."""
    cores: int = 1
    """1: one thread and equal settings. 2: each contender at its best setting."""
    threshold: float | None = None
    """Mean of the last 20 training episodes whose time is measured too."""
    backend: str = "gymnasium"
    """What steps hpcpod's environments; peers have gymnasium's own, or what a variant names."""

    @property
    def rollout(self) -> int:
        """Environment steps between two rounds of updates."""
        return self.num_envs * self.horizon

    @property
    def updates_per_round(self) -> int:
        """Gradient updates between two rollouts."""
        return self.epochs * (self.rollout // self.batch) if self.epochs else self.updates


# Equal for all, beside the rows. PPO: GAE, no normalisation of observations or rewards, no
# entropy bonus, separate networks. TD3, SAC, DQN: a replay of 100,000.
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
VALUE_COEF = 0.5
MAX_GRAD_NORM = 0.5
BUFFER = 100_000
LEARNING_STARTS = 1_000
TAU = 0.005
TARGET_STEPS = 500
"""DQN: environment steps between two copies to the target network."""
EPSILON_STEPS = 10_000
EPSILON_END = 0.05


def _ppo(name: str, env: str, **settings: object) -> Row:
    small = {
        "num_envs": 8,
        "horizon": 128,
        "batch": 256,
        "epochs": 4,
        "hidden": 64,
        "activation": "tanh",
        "learning_rate": 1e-3,
    }
    return Row(name, "ppo", env, **{**small, **settings})  # type: ignore[arg-type]


def _replayed(algorithm: str, task: str, env: str) -> Row:
    # One update for each step, in groups of 16 where a library can group them.
    return Row(f"{algorithm}-{task}", algorithm, env, 1, 16, 256, 256, 3e-4, updates=16)


_WIDE = {
    "num_envs": 16,
    "epochs": 10,
    "hidden": 256,
    "activation": "relu",
    "learning_rate": 3e-4,
    "cores": 2,
    "backend": "mujoco",
}

ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        _ppo("ppo-cartpole", "CartPole-v1", threshold=475.0),
        _ppo("ppo-pendulum", "Pendulum-v1"),
        _replayed("sac", "pendulum", "Pendulum-v1"),
        _replayed("sac", "halfcheetah", "HalfCheetah-v5"),
        _replayed("td3", "pendulum", "Pendulum-v1"),
        _replayed("td3", "halfcheetah", "HalfCheetah-v5"),
        # 2 x 128, not CleanRL's 120 and 84: the one net that all of them can build.
        # One update for each ten steps, in groups of 5 where a library can group them.
        Row("dqn-cartpole", "dqn", "CartPole-v1", 1, 50, 128, 128, 1e-3, updates=5),
        _ppo("ppo-ant", "Ant-v5", **_WIDE),
        _ppo("ppo-halfcheetah", "HalfCheetah-v5", **_WIDE),
        _ppo(
            "ppo-cartpole-batched",
            "CartPole-v1",
            num_envs=1024,
            horizon=64,
            batch=16_384,
            backend="torch",
        ),
    )
}
"""By name, in the order in which they are measured."""

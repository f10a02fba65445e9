"""Rows of the gate: an algorithm on a task, with the hyperparameters of ``configs/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import load_file, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.vec_env import random_seeds

CONFIGS = Path(__file__).parents[2] / "configs"
PANEL = "learning"
"""Names the seeds of the evaluation's episodes, the same at every evaluation of every run."""
EPISODES = 20
"""Episodes of each evaluation."""


@dataclass(frozen=True)
class Row:
    """An algorithm on a task."""

    config: str
    """File below ``configs/``: the task, its target and the hyperparameters."""
    algorithm: str
    env_steps: int
    evaluations: int = 10
    """Evaluations on the way, evenly, the last one at the end."""
    changes: Mapping[str, Scalar] = field(default_factory=dict)
    """Hyperparameters that differ from the file's."""
    peer: bool = True
    """Whether stable-baselines3 has the algorithm."""

    @property
    def family(self) -> str:
        """``classic`` or ``mujoco``: the folder of its configuration."""
        return Path(self.config).parent.name

    @property
    def task(self) -> str:
        """Name of its task: the configuration's file without its ending."""
        return Path(self.config).stem

    @property
    def run_config(self) -> RunConfig:
        """Its configuration."""
        return _load(self.config)

    @property
    def threshold(self) -> float | None:
        """Mean return that a policy must reach at the end; None: only the curve is shown."""
        return self.run_config.stop.target

    def hyperparameters(self) -> dict[str, Scalar]:
        """Every hyperparameter: those of a control, a pod that is born without mutation."""
        space = resolve_algorithms(self.run_config)[self.algorithm]
        return {**space.unmutated(), **self.changes}

    def order(self, seed: int, budget: float, quick: bool) -> dict[str, Any]:
        """What a run is asked to do: plain data that says all that decides its result.

        Args:
            seed: of the agent and of the training episodes.
            budget: factor of ``env_steps``.
            quick: two evaluations of two episodes, to see that it works.
        """
        episodes = 2 if quick else EPISODES
        return {
            "env": to_mapping(self.run_config)["env"],
            "algorithm": self.algorithm,
            "hyperparameters": self.hyperparameters(),
            "seed": seed,
            "env_steps": max(1, round(self.env_steps * budget)),
            "evaluations": 2 if quick else self.evaluations,
            "panel": random_seeds(PANEL, count=episodes).tolist(),
        }


@cache
def _load(config: str) -> RunConfig:
    return load_file(CONFIGS / config)


_PLAIN = {"double": False, "dueling": False, "n_steps": 1, "target_interval": 128}
"""The DQN that stable-baselines3 has, too."""
_PPO_STEPS, _REPLAY_STEPS = 100_000, 20_000
"""Of MuJoCo: five seeds of both libraries take about two hours on two cores."""

ROWS: Mapping[str, Row] = {
    "cartpole-ppo": Row("classic/cartpole.yaml", "ppo", 100_000),
    "cartpole-dqn": Row("classic/cartpole.yaml", "dqn", 100_000, changes=_PLAIN),
    "cartpole-d3qn": Row("classic/cartpole.yaml", "dqn", 100_000, peer=False),
    "cartpole-a2c": Row("classic/cartpole.yaml", "a2c", 200_000),
    "acrobot-ppo": Row("classic/acrobot.yaml", "ppo", 100_000),
    "acrobot-dqn": Row("classic/acrobot.yaml", "dqn", 80_000),
    "pendulum-sac": Row("classic/pendulum.yaml", "sac", 12_000),
    "pendulum-td3": Row("classic/pendulum.yaml", "td3", 12_000),
    "pendulum-ddpg": Row("classic/pendulum.yaml", "ddpg", 12_000),
    "pendulum-ppo": Row("classic/pendulum.yaml", "ppo", 60_000),
    "mountain-car-td3": Row("classic/mountain_car_continuous.yaml", "td3", 64_000),
    **{
        f"{task}-{algorithm}": Row(
            f"mujoco/{task}.yaml",
            algorithm,
            _PPO_STEPS if algorithm == "ppo" else _REPLAY_STEPS,
            evaluations=5,
        )
        for task in ("halfcheetah", "hopper", "ant")
        for algorithm in ("ppo", "sac", "td3")
    },
}

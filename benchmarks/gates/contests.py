"""Contests of ``benchmarks/defaults.py``: agents with default settings, and presets, each beside
its counterpart of Stable-Baselines3 and rl-baselines3-zoo.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gates.rows import EPISODES, PANEL, Row
from gates.table import OURS, PEER, Run
from gates.zoo import ZOO
from hpcpod import plugins
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.vec_env import random_seeds
from hpcpod.records.codec import encode

EVALUATIONS = 20
COUNTED = 5
"""A run's score is the mean of so many evaluations, the last ones."""
LATER: Mapping[str, Any] = {
    "max_episode_steps": None, "longest_episode": 100_000, "trial_seconds": 120.0,
}  # fmt: skip
"""Fields of ``env`` that came after the first results: with these values runs are as before."""


@dataclass(frozen=True)
class Contest:
    """An agent on a task, by both libraries."""

    algorithm: str
    env: str
    """A gymnasium id."""
    env_steps: int
    preset: str = ""
    """A file below ``configs/``, beside the zoo's hyperparameters; "": nothing is said."""
    zoo: Mapping[str, Any] = field(default_factory=dict)
    """The zoo's hyperparameters, by stable-baselines3's names."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in the tables."""
        return f"{self.algorithm} {self.env}{' tuned' if self.preset else ''}"

    def run(self, library: str, seed: int) -> Run:
        """A seed of it, without its curve."""
        return Run(self.name, library, self.order(library, seed))

    def order(self, library: str, seed: int) -> dict[str, Any]:
        """What the library's process is asked to do; ``gates.rows.Row.order`` is its model."""
        order = {
            "env": {"id": self.env, "kwargs": {}},
            "algorithm": self.algorithm,
            "seed": seed,
            "env_steps": self.env_steps,
            "evaluations": EVALUATIONS,
            "panel": random_seeds(PANEL, count=EPISODES).tolist(),
        }
        if library == PEER:
            return order | {"own": dict(self.zoo)}
        if self.preset:
            row = Row(self.preset, self.algorithm, self.env_steps)
            env = row.order(seed, 1.0, False)["env"]
            return order | {"hyperparameters": row.hyperparameters(), "env": env}
        return order | {"hyperparameters": {}}

    def made(self, library: str) -> str:
        """A digest of all that decides a run but its seed: changed defaults make other runs.

        A new hyperparameter that is at what agents did without it (``absent``) makes none.
        """
        order = self.order(library, 0)
        if library == OURS:
            config = plugins.resolve("agents", self.algorithm).Config()
            given = {**encode(config), **order["hyperparameters"]}
            absent = [(f.name, f.metadata.get("absent")) for f in fields(config)]
            order["hyperparameters"] = {k: v for k, v in given.items() if (k, v) not in absent}
            if not self.preset:
                order["env"] |= encode(EnvConfig(self.env))
            env = order["env"].items()
            order["env"] = {k: v for k, v in env if (k, v) not in LATER.items()}
        text = json.dumps(order, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def _defaults() -> list[Contest]:
    return [
        *(Contest(name, "CartPole-v1", 100_000) for name in ("ppo", "a2c", "dqn")),
        *(Contest(name, "Acrobot-v1", 100_000) for name in ("ppo", "a2c", "dqn")),
        *(Contest(name, "MountainCarContinuous-v0", 100_000) for name in ("ppo", "a2c")),
        *(Contest(name, "Pendulum-v1", 150_000) for name in ("ppo", "a2c")),
        Contest("dqn", "LunarLander-v3", 100_000),
        *(Contest(name, "Pendulum-v1", 20_000) for name in ("td3", "ddpg", "sac")),
        *(Contest(name, "LunarLander-v3", 300_000) for name in ("ppo", "a2c")),
        *(Contest(name, "MountainCarContinuous-v0", 30_000) for name in ("td3", "ddpg", "sac")),
    ]


CONTESTS: Mapping[str, Contest] = {
    each.name: each for each in [*_defaults(), *(Contest(*row) for row in ZOO)]
}
"""Cheapest first, so that what is left out is what costs most."""

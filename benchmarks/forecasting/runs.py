"""Runs of about a minute, of different kinds, that are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _run(
    env: str,
    algorithms: Mapping[str, float],
    *,
    pods: int,
    slots: int,
    steps: int,
    stop: Mapping[str, Any],
    **sections: Any,
) -> dict[str, Any]:
    return {
        "name": "run",
        "env": {"id": env, "num_envs": 8},
        "population": {"pods": {"min": 1, "max": pods}, "algorithms": dict(algorithms)},
        "round": {"env_steps": steps, "episodes": 32},
        "stop": {
            "confirm_episodes": 128,
            "finalists": 3,
            "ensembles": {"rules": []},
            **stop,
        },
        **sections,
        "cluster": {"slots": slots, **sections.get("cluster", {})},
    }


RUNS: dict[str, dict[str, Any]] = {
    "one algorithm": _run(
        "CartPole-v1", {"ppo": 1}, pods=2, slots=2, steps=10_000, stop={"rounds": 12}
    ),
    "unequal, continuous": _run(
        "Pendulum-v1", {"ppo": 1, "sac": 1, "td3": 1},
        pods=3, slots=3, steps=3_000, stop={"rounds": 5},
    ),
    "unequal, discrete": _run(
        "CartPole-v1", {"ppo": 1, "dqn": 1}, pods=4, slots=2, steps=5_000, stop={"rounds": 5}
    ),
    "more pods than slots": _run(
        "CartPole-v1", {"ppo": 1}, pods=8, slots=2, steps=6_000, stop={"rounds": 5}
    ),
    "one slow pod": _run(
        "Pendulum-v1", {"ppo": 3, "sac": 1},
        pods=4, slots=4, steps=2_500, stop={"rounds": 6},
    ),
    "long finals": _run(
        "Pendulum-v1", {"ppo": 1}, pods=3, slots=2, steps=10_000,
        stop={"rounds": 4, "confirm_episodes": 1500},
    ),
    "env_steps": _run(
        "CartPole-v1", {"ppo": 1, "dqn": 1}, pods=3, slots=2, steps=5_000,
        stop={"env_steps": 120_000},
    ),
    "minutes": _run(
        "Acrobot-v1", {"ppo": 1, "dqn": 1}, pods=4, slots=2, steps=5_000,
        stop={"minutes": 1, "confirm_episodes": 512},
    ),
    "scored beside": _run(
        "Acrobot-v1", {"ppo": 1}, pods=2, slots=1, steps=5_000, stop={"rounds": 6},
        resources={"cpus_per_pod": 2},
    ),
    "Slurm": _run(
        "Pendulum-v1", {"ppo": 1, "sac": 1}, pods=4, slots=3, steps=2_048, stop={"rounds": 4},
        cluster={"launcher": "slurm", "partition": "low", "minutes": 30, "tick_seconds": 2},
    ),
    "Slurm, requeued": _run(
        "Pendulum-v1", {"ppo": 1, "sac": 1}, pods=4, slots=2, steps=2_048, stop={"rounds": 6},
        cluster={"launcher": "slurm", "partition": "low", "minutes": 2, "tick_seconds": 2},
    ),
    "unseen: three, continuous": _run(
        "Pendulum-v1", {"td3": 1, "ddpg": 1, "ppo": 1},
        pods=6, slots=2, steps=2_048, stop={"rounds": 3},
    ),
    "unseen: lander": _run(
        "LunarLander-v3", {"ppo": 1}, pods=3, slots=2, steps=8_192, stop={"rounds": 5}
    ),
    "unseen: one DQN": _run(
        "CartPole-v1", {"dqn": 1}, pods=3, slots=3, steps=6_000, stop={"rounds": 6}
    ),
    "unseen: A2C and PPO": _run(
        "Acrobot-v1", {"a2c": 1, "ppo": 1}, pods=5, slots=2, steps=10_000, stop={"rounds": 5}
    ),
    "unseen: env_steps": _run(
        "Pendulum-v1", {"ppo": 1, "sac": 1}, pods=3, slots=2, steps=2_048,
        stop={"env_steps": 60_000},
    ),
}  # fmt: skip
"""Those that are called unseen were recorded when the forecast's constants had been chosen."""

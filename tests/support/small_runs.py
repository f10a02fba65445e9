"""Runs of a few seconds, in folders of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcpod.config.loader import from_mapping
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.storage.run_folder import RunFolder
from tests.support.slurm_cluster import PATIENCE

FAULTS = "tests.support.faulty_envs:Faulty"

SLOW: dict[str, Any] = {
    "env": {
        "id": "tests.support.faulty_envs:Slow",
        "wrappers": [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 200}}],
    },
    "round": {"env_steps": 3072, "episodes": 2},
    "pod": {"checkpoint_seconds": 0.2},
}
"""Rounds of two seconds or more on any machine, so that something can happen in one."""

AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {"horizon": 32, "minibatch_size": 64, "epochs": 2, "hidden": 16},
    # Learns early, and its ring is smaller than two rounds: it wraps.
    "dqn": {
        "horizon": 32, "learning_starts": 128, "buffer_size": 800,
        "updates_per_iteration": 8, "target_interval": 5, "hidden": 16,
    },
}  # fmt: skip
"""Agents whose iteration takes milliseconds."""


def mapping(*algorithms: str, wrappers: Any = (), **sections: Any) -> dict[str, Any]:
    """A configuration: CartPole, 4 environments, rounds of 512 steps, one pod per algorithm."""
    names = algorithms or ("ppo",)
    whole: dict[str, Any] = {
        "name": "small",
        "env": {"id": "CartPole-v1", "num_envs": 4, "wrappers": list(wrappers)},
        "population": {
            "algorithms": {name: 1 for name in names},
            "pods": {"min": 1, "max": len(names)},
        },
        "round": {"env_steps": 512, "episodes": 8},
        "agents": {name: AGENTS.get(name, {}) for name in names},
        "stop": {"rounds": 2, "finalists": 1, "confirm_episodes": 2},
        "cluster": {"tick_seconds": 0.2},
    }
    for name, section in sections.items():
        whole[name] = {**whole.get(name, {}), **section} if isinstance(section, dict) else section
    return whole


def create(home: Path, *algorithms: str, **sections: Any) -> RunFolder:
    """A run folder, made as ``launch`` makes it, with nobody at work in it."""
    config = from_mapping(mapping(*algorithms, **sections))
    return create_run(check(config, probe=False).resolved, home)


def wait_for(what: str, holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something holds that takes fewer seconds on a machine of one's own."""
    end = time.monotonic() + seconds * PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"after {seconds * PATIENCE:g} s still not: {what}")
        time.sleep(0.02)

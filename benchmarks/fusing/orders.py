"""Orders of a measurement: each says all that decides its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusing.exchange import MODELS
from fusing.gang import Order

TARGET = -200.0
"""Mean return of a Pendulum that stands: as in ``configs/classic/pendulum.yaml``."""


@dataclass(frozen=True)
class Extent:
    """How much of a task is trained, and how closely it is looked at."""

    budget: float = 1.0
    """Factor of the steps."""
    evaluations: int = 10
    """Of a whole budget."""
    episodes: int = 32
    """Of each evaluation."""


QUICK = Extent(0.1, 20, 2)
"""To see that it works."""


@dataclass(frozen=True)
class Task:
    """An algorithm on Pendulum-v1, and how much it may see."""

    algorithm: str
    hyperparameters: Mapping[str, Any]
    env_steps: int
    """Of all ranks together."""
    num_envs: int = 4
    """Of one rank."""


_SAC = {
    "learning_rate": 1e-3, "gamma": 0.98, "tau": 0.02, "hidden": 64, "horizon": 8,
    "updates_per_step": 0.5,
}  # fmt: skip
TASKS = {
    "ppo": Task(
        "ppo",
        {
            "learning_rate": 1e-3, "gamma": 0.9, "horizon": 256, "minibatch_size": 64,
            "epochs": 10, "normalize_obs": False, "normalize_returns": False,
        },
        env_steps=81_920,
    ),
    "sac": Task("sac", _SAC, env_steps=25_600),
}  # fmt: skip
"""Hyperparameters of ``configs/classic/pendulum.yaml``, but for PPO's shorter horizon: so many
learners fuse often enough within so few steps."""


@dataclass(frozen=True)
class Learners:
    """Who learns."""

    ranks: int
    scheme: str = "alone"
    every: int = 1
    ancestor: str = "same"
    """``same`` initial weights on all ranks, as in a pod, or ``different`` ones."""
    envs: int = 1
    """Environments, in units of a task's ``num_envs``."""

    @property
    def words(self) -> str:
        """How a table calls them."""
        if self.ranks == 1:
            return f"one learner, {self.envs}n environments"
        every = f", every {self.every}" if self.every > 1 else ""
        other = ", different initial weights" if self.ancestor != "same" else ""
        return f"{self.ranks} ranks, {self.scheme}{every}{other}"


FUSED = ("mean", 1), ("mean", 5), ("mean", 20), ("grad_allreduce", 1), ("nesterov", 1)
LEARNERS: Mapping[str, tuple[Learners, ...]] = {
    "ppo": (
        Learners(1),
        *(
            learners
            for ranks in (2, 4)
            for learners in (
                Learners(1, envs=ranks),
                *(Learners(ranks, scheme, every) for scheme, every in FUSED),
                Learners(ranks, "none"),
                Learners(ranks, "none", ancestor="different"),
            )
        ),
    ),
    "sac": (
        Learners(1), Learners(1, envs=2), Learners(2, "mean"), Learners(2, "mean", 20),
        Learners(2, "none"),
    ),
}  # fmt: skip

SCHEMES = "alone", "mean", "grad_allreduce", "nesterov", "none"


def learning(task: str, learners: Learners, seed: int, extent: Extent) -> Order:
    """A run of ``fusing.replicas.learn``."""
    given = TASKS[task]
    return {
        "kind": "learn",
        "task": task,
        "ranks": learners.ranks,
        "backend": "gloo",
        "algorithm": given.algorithm,
        "hyperparameters": dict(given.hyperparameters),
        "env": {
            "id": "Pendulum-v1", "backend": "torch", "num_envs": given.num_envs * learners.envs,
        },
        "scheme": learners.scheme,
        "every": learners.every,
        "ancestor": learners.ancestor,
        "seed": seed,
        "env_steps": round(extent.budget * given.env_steps),
        "evaluations": max(1, round(extent.budget * extent.evaluations)),
        "episodes": extent.episodes,
    }  # fmt: skip


def exchanges(backend: str, quick: bool) -> Iterator[Order]:
    """What ``--exchange`` measures with one backend, by ranks."""
    count = 3 if quick else 20
    for ranks in (1, 2, 4):
        asked = {"ranks": ranks, "backend": backend}
        for model in MODELS:
            for scheme in ("mean", "grad_allreduce") if ranks > 1 else ("none",):
                yield {"kind": "epochs", "model": model, "scheme": scheme, "epochs": count, **asked}
            if ranks > 1:
                yield {"kind": "fuse", "model": model, "repeats": 25 * count, **asked}

"""Facts about a task by which a configuration is chosen. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcpod.config.space import Scalar

CANDIDATES = ("ppo", "dqn", "sac", "td3")
"""Algorithms to choose among; A2C and DDPG are earlier forms of PPO and TD3 that learned less on
the same tasks (benchmarks/RESULTS.md)."""
PANEL = 32
"""Episodes of the panel whose speed is measured."""
BESIDE = 16
"""Episodes that could be stepped in the time that each step of a batch takes beside them."""
SMALL = 8
"""Numbers of an observation and an action together up to which a small network is enough."""
UNITS = 64
"""Units of its hidden layers: rl-baselines3-zoo's PPO, and SAC on Pendulum-v1 here
(benchmarks/RESULTS.md)."""


@dataclass(frozen=True)
class Pace:
    """The speed of one algorithm in a task."""

    train: float
    """Environment steps per second of training, updates included, by one pod."""
    panel_step: float
    """Seconds that one step of ``PANEL`` episodes takes, the policy's choice included."""


@dataclass(frozen=True)
class Task:
    """A task as it was measured, or as it is assumed to be."""

    id: str
    """Of the environment."""
    actions: Literal["discrete", "multi-discrete", "continuous"]
    """Kind of its actions."""
    observation_size: int
    """Numbers in one observation."""
    action_size: int
    """Numbers in one action."""
    image: bool
    """Observations are images."""
    max_episode_steps: int | None
    """The time limit of an episode in steps, also one that the environment was seen to keep by
    itself; None without one."""
    random_steps: float | None
    """Mean steps of an episode of random actions; None: none has ended."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """The speed of each algorithm that can act in it."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Algorithms that can't, each with the reason."""
    measured: bool = True
    """False: speeds are assumptions."""

    @property
    def observation_bytes(self) -> int:
        """Memory of one observation: a byte for each number of an image, else four."""
        return self.observation_size * (1 if self.image else 4)


ASSUMED = {
    "ppo": Pace(2_000.0, 2e-3), "dqn": Pace(1_000.0, 2e-3),
    "sac": Pace(200.0, 2e-3), "td3": Pace(300.0, 2e-3),
}  # fmt: skip
"""Speeds on a task of which none was measured: a slower core than those of this project's own
measurements, and an environment that takes 50 µs for a step."""


def network_of(task: Task, defaults: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The hidden units that an agent gets in a task, where its default is too many: wide layers
    take most of the time of an algorithm that learns from a replay buffer."""
    hidden = defaults.get("hidden")
    small = not task.image and task.observation_size + task.action_size <= SMALL
    replay = "buffer_size" in defaults and task.actions == "continuous"
    if small and replay and isinstance(hidden, int) and hidden > UNITS:
        return {"hidden": UNITS}
    return {}

"""Tasks and agents' spaces that are made by hand."""

from __future__ import annotations

from dataclasses import replace

from hpcpod.config.auto.choice import Spaces
from hpcpod.config.auto.task import Pace, Task
from hpcpod.config.space import AlgorithmSpace, Choice, LogUniform, Range, Scalar

DISCRETE = Task(
    "Game-v0", "discrete", 4, 1, False, 500, 22.0,
    {"ppo": Pace(10_000.0, 5e-4), "dqn": Pace(2_000.0, 5e-4)},
    {"sac": "sac acts in continuous spaces only"},
)  # fmt: skip
"""A panel of 32 lasts 500 x 0.5 ms = 0.25 s."""
CONTINUOUS = Task(
    "Arm-v0", "continuous", 3, 1, False, 200, 200.0,
    {"ppo": Pace(10_000.0, 5e-4), "sac": Pace(1_000.0, 5e-4), "td3": Pace(1_250.0, 5e-4)},
    {"dqn": "dqn acts in discrete spaces only"},
)  # fmt: skip
"""A panel of 32 lasts 0.1 s."""
ALONE = replace(DISCRETE, paces={"ppo": DISCRETE.paces["ppo"]})

RATE = LogUniform(1e-4, 1e-3)
DECLARED: dict[str, tuple[dict[str, Scalar], dict[str, Range]]] = {
    "ppo": (
        {"learning_rate": 3e-4, "horizon": 256, "hidden": 64},
        {"learning_rate": RATE, "horizon": Choice((32, 128, 512, 1024))},
    ),
    "dqn": (
        {"learning_rate": 5e-4, "horizon": 4, "buffer_size": 100_000, "hidden": 128},
        {"learning_rate": RATE},
    ),
    "sac": (
        {"learning_rate": 3e-4, "horizon": 16, "buffer_size": 1_000_000, "hidden": 256},
        {"learning_rate": RATE},
    ),
    "td3": (
        {"learning_rate": 3e-4, "horizon": 16, "buffer_size": 1_000_000, "hidden": 256},
        {"learning_rate": RATE},
    ),
}
"""Defaults, and ranges."""
SPACES: Spaces = {
    name: AlgorithmSpace(name, {**defaults, **ranges}, defaults)
    for name, (defaults, ranges) in DECLARED.items()
}

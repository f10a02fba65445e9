"""The arms: a module and a Python for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OURS = "hpcpod"


@dataclass(frozen=True)
class Arm:
    """An optimiser."""

    module: str
    """Below ``arms``; run as a process."""
    words: str
    """Its description, for the table."""
    venv: str = OURS
    """Of ``contenders/requirements``; ``OURS``: the Python that runs the benchmark."""
    asked: bool = False
    """Played only where ``--arms`` names it."""


ARMS: Mapping[str, Arm] = {
    "tournament": Arm("hpcpod_run", "hpcpod: 16 pods"),
    "finals": Arm("hpcpod_run", "hpcpod: 16 pods, delivered by its final evaluation"),
    "generational": Arm("hpcpod_run", "hpcpod: `scheme: generational`"),
    "halving": Arm("hpcpod_run", "hpcpod: 32 pods, `allocator: halving`"),
    "replicates": Arm("hpcpod_run", "hpcpod: 32 pods, `allocator: replicates`", asked=True),
    "pods_8": Arm("hpcpod_run", "hpcpod: 8 pods", asked=True),
    "pods_32": Arm("hpcpod_run", "hpcpod: 32 pods", asked=True),
    "pb2": Arm("hpcpod_run", "hpcpod: 16 pods, copies by `pb2`", asked=True),
    "no_evolution": Arm("hpcpod_run", "hpcpod: 16 pods, no copies"),
    "random_search": Arm("random_search", "random search, 32 full trainings"),
    "ray_pbt": Arm("ray_tune", "Ray Tune PBT, 8 trials, `synch`", "raytune"),
    "ray_pbt_async": Arm("ray_tune", "Ray Tune PBT, 8 trials", "raytune", asked=True),
    "ray_asha": Arm("ray_tune", "Ray Tune ASHA", "raytune"),
    "smac": Arm("smac_forest", "SMAC3, random forest", "smac"),
    "tpe": Arm("optuna_tpe", "Optuna TPE, median pruner", "optuna"),
    "long_run": Arm("hpcpod_run", "one run, rl-zoo's hyperparameters"),
    "long_run_searched": Arm("hpcpod_run", "one run, rl-zoo's values of what the others search"),
}
"""Arms by name, ours first."""

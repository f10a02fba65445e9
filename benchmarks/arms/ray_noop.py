"""Ray Tune's own costs: trials that do nothing, with a state of 2 MB, under its PBT.

``python -m arms.ray_noop FOLDER REUSE EXPLOITS``: prints when the first step began (Unix time), the
seconds of the whole and how often a trial was exploited.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import FIFOScheduler, PopulationBasedTraining

TRIALS, ROUNDS, SLOTS = 8, 20, 2
STATE = 2_000_000
"""Bytes."""
FIRST = "first-step"


class Idle(tune.Trainable):  # type: ignore[misc]
    """A trial whose score is its hyperparameter; torch is imported, as every agent's would be."""

    def setup(self, config: dict[str, Any], folder: str = "") -> None:
        """Import, make a state, and leave a mark where there is none."""
        import torch

        self._state, self._folder = torch.zeros(STATE // 4), Path(folder)

    def step(self) -> dict[str, float]:
        """Do nothing."""
        first = self._folder / FIRST
        if not first.exists():
            first.write_text(str(time.time()))
        return {"score": float(self.config["x"])}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state."""
        with (Path(checkpoint_dir) / "state").open("wb") as file:
            file.write(self._state.numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Read the state."""
        (Path(checkpoint_dir) / "state").read_bytes()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial."""
        self.config = new_config
        return True


def main() -> None:
    folder, reuse, exploits = sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1"
    logging.disable(logging.WARNING)
    ray.init(num_cpus=SLOTS, include_dashboard=False, log_to_driver=False)
    pbt = PopulationBasedTraining(
        "training_iteration", perturbation_interval=5, synch=True, metric="score", mode="max",
        hyperparam_mutations={"x": tune.uniform(0.0, 1.0)},
    )  # fmt: skip
    began = time.time()
    tune.Tuner(
        tune.with_resources(tune.with_parameters(Idle, folder=folder), {"cpu": 1}),
        param_space={"x": tune.uniform(0.0, 1.0)},
        tune_config=tune.TuneConfig(
            scheduler=pbt if exploits else FIFOScheduler(), num_samples=TRIALS, reuse_actors=reuse,
        ),
        run_config=tune.RunConfig(
            name="idle", storage_path=folder, stop={"training_iteration": ROUNDS}, verbose=0,
        ),
    ).fit()  # fmt: skip
    seconds = time.time() - began
    ray.shutdown()
    count = pbt._num_perturbations if exploits else 0
    first = float((Path(folder) / FIRST).read_text())
    print(json.dumps({"first_step": first, "seconds": seconds, "exploits": count}))


if __name__ == "__main__":
    main()

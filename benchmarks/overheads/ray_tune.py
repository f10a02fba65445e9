"""Ray Tune's population-based training of trials that sleep, as a process of its own."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from overheads.gaps import gaps_of
from overheads.population import PODS

NUMBERS = 500_000
"""Of a checkpoint: 2 MB, as float32."""


class Training(tune.Trainable):  # type: ignore[misc]
    """A trial whose step takes a fixed time, with a checkpoint of the same size."""

    def setup(self, config: dict[str, Any]) -> None:
        """Load what a training needs."""
        import torch  # noqa: F401 (as an agent does)

        self._log = Path(config["log"])
        self._weights = np.zeros(NUMBERS, np.float32)
        self._copied = False

    def step(self) -> dict[str, Any]:
        """Work, and note when."""
        began = time.time()
        time.sleep(0.3)
        copied, self._copied = self._copied, False
        with self._log.open("a") as file:
            print(json.dumps([began, time.time(), copied]), file=file)
        return {"score": float(np.random.default_rng().normal())}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the weights and the trial that they are of."""
        np.save(Path(checkpoint_dir, "weights.npy"), self._weights)
        Path(checkpoint_dir, "of.txt").write_text(self.trial_id)

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Read them: those of another trial are a copy."""
        self._weights = np.load(Path(checkpoint_dir, "weights.npy"))
        self._copied = Path(checkpoint_dir, "of.txt").read_text() != self.trial_id

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial."""
        self.config = new_config
        return True


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.WARNING)
    log = Path(folder, "steps.jsonl")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    score: dict[str, Any] = {"metric": "score", "mode": "max"}
    pbt = PopulationBasedTraining(
        "training_iteration", perturbation_interval=1, synch=True, quantile_fraction=0.25,
        hyperparam_mutations={"learning_rate": tune.loguniform(1e-5, 1e-2)}, **score,
    )  # fmt: skip
    tuner = tune.Tuner(
        tune.with_resources(Training, {"cpu": 1}),
        param_space={"learning_rate": tune.loguniform(1e-5, 1e-2), "log": str(log)},
        tune_config=tune.TuneConfig(
            scheduler=pbt, num_samples=PODS, reuse_actors="--reuse" in sys.argv
        ),
        run_config=tune.RunConfig(
            name="ray", storage_path=folder, stop={"training_iteration": rounds}, verbose=0
        ),
    )
    try:
        tuner.fit()
    finally:
        ray.shutdown()
    print(json.dumps(gaps_of(log)))


if __name__ == "__main__":
    main()

"""Ray Tune's population-based training of a function that sleeps, as a process of its own."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from overheads.gaps import gaps_of
from overheads.population import PODS

BYTES = 2_000_000


def train(config: dict[str, Any]) -> None:
    """Sleep for 0.3 s an iteration, and save 2 MB."""
    mine = tune.get_context().get_trial_id()
    checkpoint, copied = tune.get_checkpoint(), False
    if checkpoint:
        with checkpoint.as_directory() as folder:
            Path(folder, "weights").read_bytes()
            copied = Path(folder, "of.txt").read_text(encoding="ascii") != mine
    while True:
        began = time.time()
        time.sleep(0.3)
        with Path(config["log"]).open("a", encoding="ascii") as file:
            print(json.dumps([began, time.time(), copied]), file=file)
        copied = False
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "weights").write_bytes(os.urandom(BYTES))
            Path(folder, "of.txt").write_text(mine, encoding="ascii")
            chance = int.from_bytes(os.urandom(4), "big") / 2**32
            tune.report({"score": chance}, checkpoint=tune.Checkpoint.from_directory(folder))


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.WARNING)
    log = Path(folder, "steps.jsonl")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    pbt = PopulationBasedTraining(
        "training_iteration", perturbation_interval=1, synch=True, quantile_fraction=0.25,
        hyperparam_mutations={"rate": tune.loguniform(1e-5, 1e-2)}, metric="score", mode="max",
    )  # fmt: skip
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"rate": tune.loguniform(1e-5, 1e-2), "log": str(log)},
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

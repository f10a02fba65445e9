"""Ray Tune's population-based training of trials that sleep, in this process."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from overheads.gaps import gaps_of
from overheads.population import PODS


def measure(trainable: Any) -> None:
    """Train a population, and print the gaps between steps that ``config["log"]`` tells.

    The words of the command are a folder, the rounds, and ``--reuse`` for actors that are reused.
    """
    folder, rounds = sys.argv[1], int(sys.argv[2])
    logging.disable(logging.WARNING)
    log = Path(folder, "steps.jsonl")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    rates = tune.loguniform(1e-5, 1e-2)
    pbt = PopulationBasedTraining(
        "training_iteration", perturbation_interval=1, synch=True, quantile_fraction=0.25,
        hyperparam_mutations={"learning_rate": rates}, metric="score", mode="max",
    )  # fmt: skip
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space={"learning_rate": rates, "log": str(log)},
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

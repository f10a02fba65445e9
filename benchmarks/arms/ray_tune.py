"""Ray Tune: population-based training and asynchronous successive halving, by their defaults.

Actors are reused, which spares a process start at each exploit. Two things are done for it that it
does not do itself: a perturbed value is moved back into its range, and the best of all scored
checkpoints is delivered, not the last one of the best trial. Its PBT compares trials that have
trained as much (``synch``): by default, with fewer slots than trials, it hardly ever exploits.
"""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, PopulationBasedTraining

from arms import loop
from arms.order import Delivery, Order, best_played, main
from arms.tasks import TRAININGS
from arms.trainer import Trainer, prepare

SCORE: dict[str, Any] = {"metric": "score", "mode": "max"}
TRIALS = 8
"""Of its population; each may train for ``TRAININGS / TRIALS`` full trainings."""
STATE = "training.json"
ENDLESS = 10**6
"""Rounds, where wall time ends them."""


class Training(tune.Trainable):  # type: ignore[misc]
    """A trial: a step is a round."""

    def setup(self, config: dict[str, Any], order: Order | None = None) -> None:
        """Make the trainer, which a reused actor keeps."""
        assert order is not None
        self._order = order
        self._rounds = rounds_of(order)
        self._trainer = Trainer(order)
        self._begin()

    def _begin(self) -> None:
        self._start: Any = None
        self._failed = False

    def step(self) -> dict[str, Any]:
        """Train a round; a training that has failed stays at the task's lowest score."""
        if self._failed:
            return {"score": self._order.task.low}
        algorithm = str(self.config["algorithm"])
        drawn = loop.of(algorithm, self.config)
        played = self._trainer.train(self.trial_id, algorithm, drawn, self._start, self._rounds)
        self._start, self._failed = played.checkpoint, played.checkpoint is None
        return {"score": played.score}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Names of blobs: what it holds lies in the order's folder."""
        state = {"start": self._start, "failed": self._failed}
        (Path(checkpoint_dir) / STATE).write_text(json.dumps(state))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Go on from there."""
        state = json.loads((Path(checkpoint_dir) / STATE).read_text())
        self._start, self._failed = state["start"], state["failed"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial."""
        self.config = new_config
        self._begin()
        return True


class Budget(tune.Stopper):  # type: ignore[misc]
    """Ends everything when the budget is spent, and a trial after its rounds."""

    def __init__(self, order: Order, rounds: int) -> None:
        self._order, self._rounds = order, rounds

    def __call__(self, _trial: str, result: dict[str, Any]) -> bool:
        """True if a trial ends."""
        return int(result["training_iteration"]) >= self._rounds

    def stop_all(self) -> bool:
        """True if all end."""
        lines = self._order.played.read_text().splitlines() if self._order.played.exists() else []
        return self._order.is_over(sum(int(json.loads(line)["steps"]) for line in lines))


def rounds_of(order: Order) -> int:
    """Rounds of a trial that comes to its end."""
    return order.task.rounds * (1 if order.arm == "ray_asha" else TRAININGS // TRIALS)


def domain(kind: str, ends: list[Any]) -> Any:
    """A range as Ray Tune has it."""
    if kind == "choice":
        return tune.choice(ends)
    if kind == "int":
        return tune.randint(ends[0], ends[1] + 1)
    return tune.loguniform(*ends) if kind == "log_uniform" else tune.uniform(*ends)


def scheduler(order: Order, domains: dict[str, Any]) -> tuple[Any, int, int]:
    """The scheduler, its trials (-1: without an end) and the rounds after which one ends."""
    rounds = rounds_of(order)
    if order.arm == "ray_asha":
        asha = AsyncHyperBandScheduler("training_iteration", grace_period=1, max_t=rounds, **SCORE)
        return asha, -1, rounds
    pbt = PopulationBasedTraining(
        "training_iteration", perturbation_interval=1, hyperparam_mutations=domains,
        synch=order.arm == "ray_pbt", **SCORE,
    )  # fmt: skip
    return pbt, TRIALS, rounds if order.axis == "env_steps" else ENDLESS


def play(order: Order) -> Delivery:
    """Tune until the budget is spent."""
    prepare(order)
    logging.disable(logging.WARNING)
    random.seed(order.seed)
    np.random.seed(order.seed)
    ray.init(num_cpus=order.slots, include_dashboard=False, log_to_driver=False)
    domains = {name: domain(kind, ends) for name, kind, ends in loop.flat(order.task.spaces)}
    chosen, trials, rounds = scheduler(order, domains)
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(Training, order=order), {"cpu": 1}),
        param_space={**domains, "algorithm": tune.choice(list(order.task.spaces))},
        tune_config=tune.TuneConfig(
            scheduler=chosen, num_samples=trials, reuse_actors=True,
            max_concurrent_trials=order.slots if trials < 0 else 0,
        ),
        run_config=tune.RunConfig(
            name="ray", storage_path=order.folder, stop=Budget(order, rounds), verbose=0,
        ),
    )  # fmt: skip
    try:
        tuner.fit()
    finally:
        ray.shutdown()
    return best_played(order)


if __name__ == "__main__":
    main(play)

"""SMAC3: Bayesian optimisation by a random forest, its facade for hyperparameters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory.dataclasses import TrialValue

from arms import loop
from arms.order import Delivery, Order, main
from arms.tasks import TRAININGS

ENDLESS = 10_000
"""Trainings, where wall time ends them."""


class Forest:
    """Asks SMAC, by ask and tell; every training is a full one with one seed."""

    def __init__(self, order: Order) -> None:
        self._names = list(order.task.spaces)
        space = ConfigurationSpace(seed=order.seed)
        space.add([_parameter(*each) for each in loop.flat(order.task.spaces)])
        if len(self._names) > 1:
            space.add(Categorical("algorithm", self._names))
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=TRAININGS if order.axis == "env_steps" else ENDLESS,
            seed=order.seed,
            output_directory=Path(order.folder) / "smac",
        )
        # Of its trainings 32 are the budget, whatever the axis: by it the first design is sized.
        design = HyperparameterOptimizationFacade.get_initial_design(
            scenario, n_configs=TRAININGS // 4
        )
        self._smac = HyperparameterOptimizationFacade(
            scenario, _never, initial_design=design, overwrite=True
        )

    def ask(self, number: int) -> tuple[Any, str, Mapping[str, Any]]:
        """See ``Optimiser``."""
        trial = self._smac.ask()
        values = dict(trial.config)
        algorithm = str(values.get("algorithm", self._names[0]))
        return trial, algorithm, loop.of(algorithm, values)

    def goes_on(self, _trial: Any, _round_number: int, _score: float) -> bool:
        """Every training comes to its end."""
        return True

    def tell(self, trial: Any, score: float | None) -> None:
        """See ``Optimiser``; it minimises."""
        assert score is not None
        self._smac.tell(trial, TrialValue(cost=-score))


def _never(_config: Any, seed: int = 0) -> float:
    raise AssertionError("asked and told, it calls nothing")


def _parameter(name: str, kind: str, ends: list[Any]) -> Any:
    if kind == "choice":
        return Categorical(name, ends)
    if kind == "int":
        return Integer(name, (ends[0], ends[1]))
    return Float(name, (ends[0], ends[1]), log=kind == "log_uniform")


def play(order: Order) -> Delivery:
    """See ``loop.play``."""
    logging.disable(logging.WARNING)
    return loop.play(order, Forest(order))


if __name__ == "__main__":
    main(play)

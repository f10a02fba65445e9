"""Optuna: its TPE sampler and its median pruner, both by their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna

from arms import loop
from arms.order import Delivery, Order, main


class Tpe:
    """Asks Optuna; a training is pruned at the end of a round."""

    def __init__(self, order: Order) -> None:
        self._spaces = order.task.spaces
        sampler = optuna.samplers.TPESampler(seed=order.seed)
        pruner = optuna.pruners.MedianPruner()
        self._study = optuna.create_study(sampler=sampler, pruner=pruner, direction="maximize")

    def ask(self, number: int) -> tuple[Any, str, Mapping[str, Any]]:
        """See ``Optimiser``."""
        trial = self._study.ask()
        names = list(self._spaces)
        algorithm = trial.suggest_categorical("algorithm", names) if len(names) > 1 else names[0]
        only = {algorithm: self._spaces[algorithm]}
        values = {name: _suggested(trial, name, k, e) for name, k, e in loop.flat(only)}
        return trial, algorithm, loop.of(algorithm, values)

    def goes_on(self, trial: Any, round_number: int, score: float) -> bool:
        """Ask the pruner."""
        trial.report(score, round_number)
        return not trial.should_prune()

    def tell(self, trial: Any, score: float | None) -> None:
        """See ``Optimiser``."""
        if score is None:
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self._study.tell(trial, score)


def _suggested(trial: Any, name: str, kind: str, ends: list[Any]) -> Any:
    if kind == "choice":
        return trial.suggest_categorical(name, ends)
    if kind == "int":
        return trial.suggest_int(name, *ends)
    return trial.suggest_float(name, *ends, log=kind == "log_uniform")


def play(order: Order) -> Delivery:
    """See ``loop.play``."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return loop.play(order, Tpe(order))


if __name__ == "__main__":
    main(play)

"""Optuna's interface over a run: ``from hpcpod.compat import optuna``, and the script is a program.

In a run ``study.optimize`` plays the run's tasks: ``trial.suggest_*`` gives the pod's
hyperparameters, ``trial.report`` ends a round (``round.env_steps`` counts reports). Outside of a
run everything is Optuna's own. ``python -m hpcpod.compat train.py`` prints the section
``program`` of a configuration, from one call of the objective up to its first report.

An objective keeps no checkpoint, so a trial that another process takes up is trained again from its
start. One that uses ``trial.checkpoint`` and ``trial.save_to`` goes on.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcpod.compat import rounds
from hpcpod.compat.rounds import Rounds
from hpcpod.program.session import SessionError

HOW = "`python -m hpcpod.compat SCRIPT.py` prints a script's search space"


class Trial:
    """A pod's training as an objective sees it."""

    def __init__(self, played: Rounds) -> None:
        self._played = played
        self._saves = False
        self.params: dict[str, Any] = {}
        self.user_attrs: dict[str, Any] = {}

    @property
    def number(self) -> int:
        """The digits of the pod's name."""
        return int("".join(filter(str.isdigit, self._played.task.pod)) or 0)

    @property
    def checkpoint(self) -> Path | None:
        """hpcpod's addition: the folder that ``save_to`` was. An objective that reads this goes on
        from there, and reports what is new."""
        return self._played.resumed()

    @property
    def save_to(self) -> Path:
        """hpcpod's addition: the folder to save in before each report; ask for it each time."""
        self._saves = True
        return self._played.task.save_to

    @property
    def reports(self) -> int:
        """hpcpod's addition: how many reports lie behind the objective."""
        return self._played.told

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """The pod's value.

        Raises:
            SessionError: it is not in the run's search, or is outside of ``low`` and ``high``.
        """
        search: dict[str, list[Any]]
        if step is not None:
            search = rounds.stepped(low, high, step)
        else:
            search = {"log_uniform" if log else "uniform": [float(low), float(high)]}
        middle = math.sqrt(low * high) if log else (low + high) / 2
        return float(self._between(name, low, high, search, middle))

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        """As `suggest_float`; a logarithmic range becomes a choice of doubling numbers."""
        search: dict[str, list[int]]
        if log:
            search = rounds.doubling(low, high)
        else:
            search = rounds.stepped(low, high, step) if step != 1 else {"int": [low, high]}
        return int(self._between(name, low, high, search, low))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """The pod's value, one of ``choices``."""
        value = self._value(name, {"choice": list(choices)}, choices[0])
        if value not in choices:
            raise SessionError(f"{name} is {value!r} in the run, and one of {choices} here")
        return value

    def report(self, value: float, step: int, *, error: float | None = None) -> None:
        """Tell an intermediate value: one of the round's steps.

        Args:
            value: The objective so far.
            step: Optuna's; hpcpod counts reports.
            error: hpcpod's addition: the value's standard error. Without it values are ranked, and
                not tested: the run needs ``population.updater: ranking``.
        """
        saved, self._saves = self._saves, False
        self._played.tell(float(value), error, {}, saved=saved)

    def should_prune(self) -> bool:
        """False: a run stops training what its allocator gives up, between rounds."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep a value for as long as this call of the objective lasts."""
        self.user_attrs[key] = value

    def _between(
        self, name: str, low: float, high: float, search: dict[str, list[Any]], middle: float
    ) -> float:
        value = self._value(name, search, middle)
        if not low <= value <= high:
            raise SessionError(f"{name} is {value} in the run, and in [{low}, {high}] here")
        return float(value)

    def _value(self, name: str, search: dict[str, list[Any]], middle: Any) -> Any:
        given = self._played.task.hyperparameters
        if name not in given:
            known = ", ".join(given) or "none"
            raise SessionError(f"the run does not search {name} (it has: {known}); {HOW}")
        self.params[name] = given[name]
        return given[name]


class Recorder(Trial):
    """A trial that notes what an objective suggests, and ends it at its first report."""

    def __init__(self) -> None:
        self.params = {}
        self.user_attrs = {}
        self.search: dict[str, Any] = {}

    number = 0
    checkpoint = None
    reports = 0

    @property
    def save_to(self) -> Path:
        """No place: nothing is saved before the first report."""
        raise _Recorded

    def report(self, value: float, step: int, *, error: float | None = None) -> None:
        """End the objective."""
        raise _Recorded

    def _value(self, name: str, search: dict[str, list[Any]], middle: Any) -> Any:
        values = search.get("choice", [])
        one = next(iter(search.values()))
        self.search[name] = one[0] if one[0] == one[-1] else search
        self.params[name] = values[0] if values else middle
        return self.params[name]


class Study:
    """A study of a script in a run: its trials are the run's pods."""

    def __init__(self, direction: str) -> None:
        self._direction = direction

    def optimize(self, func: Callable[[Any], float], *args: Any, **kwargs: Any) -> None:
        """Play the run's tasks; the process ends in here. Arguments beside the objective, such as
        ``n_trials``, are the run's to decide."""
        if rounds.recording:
            trial = Recorder()
            with suppress(_Recorded):
                func(trial)
            rounds.print_section(sys.argv[0], self._direction, trial.search)
        rounds.play(lambda played: float(func(Trial(played))))


class _Recorded(BaseException):
    """Ends an objective of which enough is known."""


class _Pruned(Exception):
    """``TrialPruned`` where Optuna is not installed."""


def create_study(*, direction: Any = None, directions: Any = None, **options: Any) -> Any:
    """Optuna's own outside of a run; in one, a study whose ``optimize`` plays the run's tasks.

    Raises:
        SessionError: in a run with several ``directions``.
    """
    if not rounds.in_run() and not rounds.recording:
        options |= {"directions": directions} if directions is not None else {}
        return importlib.import_module("optuna").create_study(direction=direction, **options)
    if directions is not None and len(list(directions)) != 1:
        raise SessionError("a run ranks by one value: report the others as metrics of a session")
    named = direction if directions is None else next(iter(directions))
    return Study(str(getattr(named, "name", named) or "minimize").lower())


def __getattr__(name: str) -> Any:
    """All else is Optuna's own: pruners, samplers, TrialPruned."""
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(importlib.import_module("optuna"), name)
    except ModuleNotFoundError:
        if name == "TrialPruned":
            return _Pruned
        raise AttributeError(f"optuna.{name} needs Optuna: pip install optuna") from None

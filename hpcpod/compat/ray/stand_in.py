"""``ray.tune`` in a run: the names that scripts of the function API use."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from hpcpod.compat import rounds
from hpcpod.compat.rounds import Rounds
from hpcpod.program.session import SessionError

RANGES = {"uniform", "log_uniform", "int", "choice"}
HOW = "TuneConfig(metric=..., mode=...), or the scheduler's, says which number ranks"


class Checkpoint:
    """A folder of files."""

    def __init__(self, path: Any) -> None:
        self.path = str(path)

    @classmethod
    def from_directory(cls, path: Any) -> Checkpoint:
        """The checkpoint that a folder is."""
        return cls(path)

    def to_directory(self, path: Any) -> str:
        """Copy the files into a folder, which is given back."""
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return str(path)

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """The folder itself, to be read."""
        yield self.path


class Context:
    """``tune.get_context()``: names of a trial."""

    def __init__(self, played: Rounds) -> None:
        self._played = played

    def get_trial_name(self) -> str:
        """The pod's name."""
        return self._played.task.pod

    get_trial_id = get_trial_name

    def get_experiment_name(self) -> str:
        """``hpcpod``."""
        return "hpcpod"


class Options:
    """The options of a search that a run decides by its configuration."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.options = options

    def get(self, name: str) -> Any:
        """An option, or None."""
        return self.options.get(name)


class Tuner:
    """A search: in a run, the player of its tasks."""

    def __init__(
        self,
        trainable: Callable[[dict[str, Any]], Any],
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: Options | None = None,
        run_config: Options | None = None,
    ) -> None:
        self._function = trainable
        self._space = dict(param_space or {})
        config = tune_config or Options()
        scheduler = config.get("scheduler") or Options()
        metric = config.get("metric") or scheduler.get("metric")
        mode = config.get("mode") or scheduler.get("mode")
        if metric is None or mode not in ("max", "min"):
            raise SessionError(f"{HOW}, with mode 'max' or 'min'")
        self._metric, self._mode = str(metric), str(mode)

    def fit(self) -> None:
        """Play the run's tasks; the process ends in here."""
        if rounds.recording:
            nested = [name for name, value in self._space.items() if _is_nested(value)]
            if nested:
                raise SessionError(f"param_space: {nested[0]} is nested: write its names flat")
            direction = "maximize" if self._mode == "max" else "minimize"
            rounds.print_section(sys.argv[0], direction, self._space)
        rounds.play(self._played)

    def _played(self, played: Rounds) -> None:
        global _now
        _now = (played, self._metric)
        try:
            self._function(dict(played.task.hyperparameters))
        finally:
            _now = None


_now: tuple[Rounds, str] | None = None
"""The tasks that a function plays now, and the name of the number that ranks."""


def _playing() -> tuple[Rounds, str]:
    if _now is None:
        raise SessionError(
            "tune.report and get_checkpoint are for the function that Tuner.fit plays"
        )
    return _now


def report(metrics: Mapping[str, Any], *, checkpoint: Checkpoint | None = None) -> None:
    """Tell the numbers of one iteration, and its checkpoint.

    Args:
        metrics: The number that ranks, under its name; its standard error, if known, under that
            name and ``_error``. Without it the run needs ``population.updater: ranking``.
        checkpoint: Its files become the pod's.

    Raises:
        SessionError: The number that ranks is missing.
    """
    played, metric = _playing()
    if metric not in metrics:
        raise SessionError(f"tune.report: {metric} is missing among {', '.join(metrics) or 'none'}")
    if checkpoint is not None:
        _keep(Path(checkpoint.path), played.task.save_to)
    error = metrics.get(f"{metric}_error")
    played.tell(
        float(metrics[metric]),
        None if error is None else float(error),
        metrics,
        saved=checkpoint is not None,
    )


def get_checkpoint() -> Checkpoint | None:
    """The pod's last checkpoint, or its parent's; None at the start."""
    folder = _playing()[0].resumed()
    return None if folder is None else Checkpoint(folder)


def get_context() -> Context:
    """Names of the trial."""
    return Context(_playing()[0])


def uniform(lower: float, upper: float) -> dict[str, list[float]]:
    """``{uniform: [lower, upper]}``."""
    return {"uniform": [float(lower), float(upper)]}


def loguniform(lower: float, upper: float, base: float = 10) -> dict[str, list[float]]:
    """``{log_uniform: [lower, upper]}``."""
    return {"log_uniform": [float(lower), float(upper)]}


def quniform(lower: float, upper: float, q: float) -> dict[str, list[Any]]:
    """The choice of every ``q``."""
    return rounds.stepped(lower, upper, q)


def randint(lower: int, upper: int) -> dict[str, list[int]]:
    """``{int: [lower, upper - 1]}``: Ray's ``upper`` is left out."""
    return {"int": [lower, upper - 1]}


def qrandint(lower: int, upper: int, q: int = 1) -> dict[str, list[Any]]:
    """The choice of every ``q``; ``upper`` is one of them."""
    return rounds.stepped(lower, upper, q)


def lograndint(lower: int, upper: int, base: float = 10) -> dict[str, list[int]]:
    """The choice of doubling numbers; Ray's ``upper`` is left out."""
    return rounds.doubling(lower, upper - 1)


def choice(categories: Any) -> dict[str, list[Any]]:
    """``{choice: categories}``."""
    return {"choice": list(categories)}


grid_search = choice
TuneConfig = RunConfig = CheckpointConfig = FailureConfig = Options


def _scheduler(name: str) -> type[Options]:
    """Whichever a script imports."""
    if name.startswith("__"):  # inspect asks every module for its __file__
        raise AttributeError(name)
    return Options


schedulers = ModuleType("schedulers")
vars(schedulers)["__getattr__"] = _scheduler


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) and not set(value) <= {
        "uniform",
        "log_uniform",
        "int",
        "choice",
    }


def _keep(folder: Path, save_to: Path) -> None:
    """Have a save hold the files of a folder, and no others."""
    if folder.resolve() == save_to.resolve():
        return
    for path in save_to.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(folder, save_to, dirs_exist_ok=True)

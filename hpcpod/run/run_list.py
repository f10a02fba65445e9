"""The list of runs: which of them, in which order, and the table of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hpcpod.errors import RunNotFound
from hpcpod.orchestrator.snapshot import RunState
from hpcpod.run.run import Run, open_run, runs_here, runs_home
from hpcpod.run.status import Status
from hpcpod.run.tables import count, interval, plain_table, visible
from hpcpod.run.text import duration, times
from hpcpod.storage.ownership import CONFIG

if TYPE_CHECKING:
    from rich.table import Table

STATES: tuple[RunState, ...] = get_args(RunState)

SORTS: dict[str, Callable[[Status], Any]] = {
    "name": lambda status: status.run.casefold(),
    "started": lambda status: -status.started,
    "score": lambda status: -status.best.mean if status.best is not None else None,
    "state": lambda status: STATES.index(status.state),
}
"""Orders of a list: names from a to z, the newest run, the highest score, running ones first."""


def latest(most: int = 1) -> list[Run]:
    """The runs that were launched last, the newest first: of ``runs_home()``, or of the same folder
    beside the one above, for who stands in ``analysis/``.

    Raises:
        RunNotFound: there is none.
    """
    home = runs_home()
    places = {home, home if home.is_absolute() else ".." / home}
    found = [path for place in places for path in runs_here(place)]
    if not found:
        raise RunNotFound(
            f"there is no run in {home.absolute()}: launch one (hpcpod launch"
            " configs/cartpole.yaml), or name a run's folder"
        )
    newest = sorted(found, key=lambda path: (path / CONFIG).stat().st_mtime, reverse=True)
    return [open_run(path) for path in newest[:most]]


def chosen(
    runs: Iterable[Status], states: Collection[str] = (), env: str | None = None
) -> list[Status]:
    """The runs in one of these states, if any is named, and of environments like ``env``, an id or
    a pattern such as ``Ant-*``."""
    return [
        run
        for run in runs
        if (not states or run.state in states) and (env is None or fnmatchcase(run.env, env))
    ]


def in_order(runs: Iterable[Status], by: str, *, reverse: bool = False) -> list[Status]:
    """The runs in an order of ``SORTS``; equal ones by name, and those without a score last."""
    named = sorted(runs, key=SORTS["name"])
    known = [run for run in named if SORTS[by](run) is not None]
    unknown = [run for run in named if SORTS[by](run) is None]
    return sorted(known, key=SORTS[by], reverse=reverse) + unknown


def runs_table(runs: Sequence[Status]) -> Table:
    """A line for each run, uncut if the terminal is wide enough."""
    from rich.text import Text

    table = plain_table()
    table.add_column("run", no_wrap=True, overflow="ellipsis")
    table.add_column("state", no_wrap=True)
    table.add_column("environment", no_wrap=True, overflow="ellipsis")
    for column in ("best", "steps", "age", "hours used"):
        table.add_column(column, justify="right", no_wrap=True)
    now = time.time()
    for run in runs:
        best = run.best
        table.add_row(
            Text(visible(_name(run))), _state(run), Text(visible(run.env)),
            "-" if best is None else interval(best.mean, best.low, best.high, best.episodes),
            count(run.env_steps), duration(now - run.started), _hours(run),
        )  # fmt: skip
    return table


def _name(run: Status) -> str:
    """The run's name, and its folder's where that was renamed."""
    folder = Path(run.path).name
    return run.run if folder == run.run else f"{run.run} ({folder})"


def _state(run: Status) -> str:
    """The run's state, and whether it was extended."""
    again = f", extended {times(len(run.extended))}" if len(run.extended) > 1 else ", extended"
    return run.state + again * bool(run.extended)


def _hours(run: Status) -> str:
    hours, of = (run.gpu_hours, "GPU") if run.gpu_hours >= 0.005 else (run.core_hours, "core")
    return f"{hours:.{0 if hours >= 100 else 2}f} {of}"

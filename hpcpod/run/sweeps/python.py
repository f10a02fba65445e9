"""Sweeps from Python: launch one, and follow one here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcpod.config.arguments import door
from hpcpod.errors import UserError
from hpcpod.run.preflight import site_for
from hpcpod.run.progress_line import progress_text
from hpcpod.run.run import runs_home
from hpcpod.run.sweeps import folder, launch
from hpcpod.run.sweeps.cells import read_plan
from hpcpod.run.sweeps.design import Cell
from hpcpod.run.sweeps.driver import Driver, cells_at_once
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.outcome import Outcome
from hpcpod.run.text import duration, listed, many

MOST_NAMES = 6
"""Cells at work that are named."""
Ended = Callable[[Cell, Outcome, int], object]
"""A function that is told of a cell that has ended, its outcome, and how many have."""


@door(config=str, cluster=str | None, runs=str | None, site=str | None, yes=bool,
      progress=bool | None)  # fmt: skip
def sweep(
    config: str | Path,
    *,
    cluster: str | None = None,
    runs: str | Path | None = None,
    site: str | Path | None = None,
    overrides: Sequence[str] = (),
    yes: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Run the sweep of a file. Here it returns once the last run has ended, on Slurm at once.

    Args:
        config: the YAML file, with ``sweep``.
        cluster: ``local`` or ``slurm``; overrides ``cluster.launcher``.
        runs: the folder that holds runs; default ``$HPCPOD_RUNS``, else ``runs``.
        site: a site's file that is laid under it; default as of ``launch``.
        overrides: ``stop.env_steps=16384`` each, as ``--set`` has them.
        yes: make more than a thousand runs, too.
        progress: show on standard error how far it is. None: in a terminal or a notebook.

    Returns:
        The sweep: ``.table()`` has a row for each run, ``.analyses()`` the effects. One that was
        interrupted goes on by ``hpcpod sweep resume``.

    Raises:
        UserError: the file has problems or no sweep, the folder exists, the scheduler refuses.
    """
    plan = read_plan(config, cluster, overrides, site_for(site, cluster), yes=yes)
    if plan is None:
        raise UserError(f"{config} has no sweep: section; hpcpod.launch launches a run")
    home = runs_home(runs)
    folder.check_free(home / plan.name)
    made = launch.make(plan, launch.check(plan), home)
    if plan.configs[0].cluster.launcher == "local":
        follow_here(made, lambda: False, progress=progress)
    else:
        launch.submit_new(made)
    return made


def follow_here(
    found: Sweep,
    stop: Callable[[], bool],
    on_end: Ended = lambda cell, outcome, ended: None,
    *,
    progress: bool | None = None,
) -> int:
    """Run the cells of a sweep here until the last one has ended; the driver's exit code.

    Args:
        found: the sweep.
        stop: true once it shall stop.
        on_end: told of each that ends.
        progress: as of ``sweep``.
    """
    ended, began, every = len(found.kept()), time.monotonic(), len(found.cells)
    before = ended

    def tell(cell: Cell, outcome: Outcome) -> None:
        nonlocal ended
        ended += 1
        on_end(cell, outcome, ended)

    with progress_text(progress) as show:

        def look(cells: Sequence[Cell]) -> None:
            seconds = time.monotonic() - began
            show(progress_words(found.name, cells, ended, every, seconds, ended - before))

        at_once = cells_at_once(found.element, 1, every)  # an element has the cores of a cell
        return Driver(found, at_once, stop, tell, look).run()


def progress_words(
    name: str, cells: Sequence[Cell], ended: int, every: int, seconds: float, done: int
) -> str:
    """The standing of a sweep in a line.

    Args:
        name: the sweep's.
        cells: at work.
        ended: runs that have ended.
        every: runs.
        seconds: since it was begun, or resumed.
        done: runs that have ended since.
    """
    names = [cell.name for cell in cells[:MOST_NAMES]]
    names += [f"{len(cells) - MOST_NAMES} more"] if len(cells) > MOST_NAMES else []
    said = f"{name}: {ended} of {many(every, 'run')} ended, {len(cells)} at work"
    said += f" ({listed(names)})" if names else ""
    if done:
        said += f"; some {duration(seconds / done * (every - ended))} to go"
    return said

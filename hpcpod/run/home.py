"""The folder that holds runs, and what runs are there."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from hpcpod.errors import RunNotFound
from hpcpod.storage.os_errors import may_exist
from hpcpod.storage.run_folder import RunFolder

MOST_NAMES = 5
"""Runs that a message names."""


def runs_home(given: str | Path | None = None) -> Path:
    """The folder of all runs: the given one, else ``$HPCPOD_RUNS``, else ``runs`` in the working
    directory."""
    return Path(os.environ.get("HPCPOD_RUNS", "runs") if given is None else given)


def runs_here(home: Path | None = None) -> list[Path]:
    """The folders of all runs under ``home``, by default ``runs_home()``, by name; not those that
    are being made, nor the doctor's."""
    return sorted(path.parent for path in (home or runs_home()).glob("[!.]*/config.json"))


def absolute(run: str | Path) -> Path:
    """The path of a run's folder, by its path or its name under ``runs/``; what is neither stays a
    path."""
    direct, named = Path(run), runs_home() / run
    found = next((path for path in (direct, named) if may_exist(path / "config.json")), direct)
    return found.absolute()


def folder_of(path: str | Path) -> RunFolder:
    """A run's folder, by its path or by its name under ``runs/``.

    Raises:
        RunNotFound: there is none.
    """
    direct, named = Path(path), runs_home() / path
    for folder in (direct, named):
        if may_exist(folder / "config.json"):
            return RunFolder.open(folder)
        if may_exist(folder / "sweep.json"):
            raise RunNotFound(f"{folder} is a sweep, of the runs in its cells/: hpcpod sweep -h")
        if may_exist(folder / "card.json"):
            raise RunNotFound(
                f"{folder} is an exported policy: `hpcpod play` plays it; for all else say the run,"
                " or the .h5 that `hpcpod export RUN FILE.h5` writes"
            )
    for folder in (direct, Path(f"{named}.ct")):
        if may_exist(folder / "ct.json"):
            raise RunNotFound(
                f"{folder} is a registry of `hpcpod ct`: its runs are in runs/ there, what is"
                " deployed is current/policy.h5"
            )
    raise RunNotFound(
        f"there is no run at {direct}, and none named so in {runs_home().absolute()}"
        f"{_nearest(direct)}"
    )


def _nearest(path: Path) -> str:
    """The runs that may have been meant, as the end of a sentence."""
    home = path.parent if len(path.parts) > 1 else runs_home()
    try:
        names = [run.name for run in runs_here(home)]
        if not names:  # a folder without any: those are meant that are found by name
            path, names = Path(path.name), [run.name for run in runs_here()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(str(path.with_name(name)) for name in close)}?"
    if names:
        verb, more = "is" if len(names) == 1 else "are", len(names) - MOST_NAMES
        return f"; there {verb} {', '.join(names[:MOST_NAMES])}" + f" and {more} more" * (more > 0)
    return "; nor is any other: stand where it was launched, or say by $HPCPOD_RUNS where runs are"

"""Reports as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcpod.errors import UserError
from hpcpod.report.compare import comparison
from hpcpod.report.curves import main_figure
from hpcpod.report.one import report_of
from hpcpod.report.page import MARK, picture
from hpcpod.report.story import Story, read
from hpcpod.report.sweep import sweep_page
from hpcpod.run.run import Run
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.storage.disk import Disk, check_writable

MOST_RUNS = 200
ENDINGS = (".html", ".htm", ".svg")


def write_report(
    runs: Run | Sequence[Run], to: str | Path = "report.html", *, overwrite: bool = False
) -> Path:
    """Write the report of one run, or the comparison of several; return the file's path.

    Args:
        runs: a run, or several, each once.
        to: the file, which replaces an earlier report; ending in ``.svg``, it is the picture of
            one run's scores against wall time alone.
        overwrite: replace it even if it is something else.

    Raises:
        StorageError: the filesystem refuses; an earlier report stands.
        UserError: the file can't be written, has another ending, or is there and no report; a run
            is given twice, or none is.
    """
    path = Path(to)
    runs = [runs] if isinstance(runs, Run) else runs
    if not runs:
        raise UserError("a report is about a run: none was given")
    twice = {run.path for run in runs if sum(each.path == run.path for each in runs) > 1}
    if twice:
        raise UserError(f"each run once: {min(twice)} was given more than once")
    if len(runs) > MOST_RUNS:
        raise UserError(f"at most {MOST_RUNS} runs fit side by side, got {len(runs)}")
    check_writable(path, overwrite=overwrite or is_report(path))
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"can't write {path}: a report is a page (.html) or a picture (.svg)")
    stories = [read(run) for run in runs]
    if path.suffix.lower() == ".svg":
        text = picture(main_figure(_only(stories)))
    elif len(stories) > 1:
        text = comparison(stories)
    else:
        text = report_of(stories[0])
    return _written(path, text)


def write_sweep_report(
    sweep: Sweep, to: str | Path = "report.html", *, overwrite: bool = False
) -> Path:
    """Write the report of a sweep; return the file's path.

    Args:
        sweep: the sweep.
        to: the file, which replaces an earlier report.
        overwrite: replace it even if it is something else.

    Raises:
        StorageError: the filesystem refuses; an earlier report stands.
        UserError: the file can't be written, has another ending, or is there and no report.
    """
    path = Path(to)
    check_writable(path, overwrite=overwrite or is_report(path))
    if path.suffix.lower() not in ENDINGS[:2]:
        raise UserError(f"can't write {path}: the report of a sweep is a page (.html)")
    return _written(path, sweep_page(sweep))


def _written(path: Path, text: str) -> Path:
    Disk().replace(path.absolute(), text.encode())  # a disk that is full leaves the earlier one
    return path


def _only(stories: Sequence[Story]) -> Story:
    if len(stories) > 1:
        raise UserError("a picture (.svg) is of one run; write a page (.html) of several")
    if not stories[0].rounds:
        raise UserError(f"{stories[0].name} has no score yet: there is nothing to draw")
    return stories[0]


def is_report(path: Path) -> bool:
    """True if a file is a report of hpcpod's, of whatever version."""
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(2000)
    except OSError:
        return False

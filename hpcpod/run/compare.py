"""Several runs side by side, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hpcpod.run.data import Look, as_frame, plain_rows
from hpcpod.run.data_rows import RunRow, run_row
from hpcpod.run.run import Run, open_run
from hpcpod.run.usage import used


def compare(runs: Iterable[Run | str | Path] | Run | str | Path) -> Any:
    """Runs side by side, a row for each, in the order given.

    A run has one winner and one score of it, so its interval is about this policy's episodes. It
    says nothing of what another run with another seed would find: for that, give several runs with
    different ``seed`` and look at how their ``mean`` differ.

    Args:
        runs: runs, or their folders or names, as ``open_run`` takes them.

    Returns:
        A pandas DataFrame; without pandas a list of a mapping for each row. Its columns are the
        fields of ``hpcpod.run.data_rows.RunRow``.

    Raises:
        RunNotFound: there is no such run.
    """
    given = [runs] if isinstance(runs, (Run, str, Path)) else runs
    looks = [Look(_opened(run).folder) for run in given]
    rows = [
        run_row(
            str(look.folder.path), look.folder.resolved, _version(look), look.board, look.results,
            used(look.folder.restarts.all()),
        )
        for look in looks
    ]  # fmt: skip
    return as_frame(RunRow, plain_rows(RunRow, rows))


def _opened(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def _version(look: Look) -> str:
    versions = look.folder.config.get("versions")
    return str(versions.get("hpcpod", "")) if isinstance(versions, dict) else ""

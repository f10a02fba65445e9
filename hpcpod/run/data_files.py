"""Files of a run's data: tables as CSV, and a study of Optuna."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hpcpod.errors import UserError
from hpcpod.run.data import Columns, Look, columns_of
from hpcpod.run.optuna_journal import journal
from hpcpod.run.tables import visible
from hpcpod.storage.disk import check_writable, explain

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Starts of a text that a spreadsheet takes for a formula, and runs."""


def as_csv(columns: Columns) -> str:
    """A table as CSV, with its columns' names in the first line.

    A value that is missing is an empty cell. A text that a spreadsheet would take for a formula has
    an apostrophe before it: names and reasons may be another user's.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows(map(_cell, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def write_csv(look: Look, folder: Path, names: Iterable[str], *, overwrite: bool) -> list[Path]:
    """Write tables of a run into a folder, one file each; return their paths.

    Raises:
        UserError: there is no such table, the folder can't be made, or a file is there already.
    """
    names = list(names)
    _make(folder)
    paths = [folder / f"{name}.csv" for name in names]
    for path in paths:
        check_writable(path, overwrite=overwrite)
    for name, path in zip(names, paths, strict=True):
        data = as_csv(columns_of(look, name)).encode()
        look.folder.disk.replace(path.absolute(), data)
    return paths


def write_optuna(look: Look, to: Path, *, overwrite: bool) -> Path:
    """Write a run as a study of Optuna, by ``optuna_journal``; return the path.

    Raises:
        UserError: the file can't be written, or is there.
    """
    check_writable(to, overwrite=overwrite)
    look.folder.disk.replace(to.absolute(), journal(look))
    return to


def _make(folder: Path) -> None:
    if not folder.absolute().parent.is_dir():
        raise UserError(f"can't make {folder}: there is no folder {folder.absolute().parent}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"can't make the folder {folder}: {explain(error)}") from error


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text

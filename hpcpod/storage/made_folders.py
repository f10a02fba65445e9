"""Folders that a command has made, and that it may replace: none that a person filled."""

from __future__ import annotations

import os
from pathlib import Path

from hpcpod.errors import UserError
from hpcpod.storage.os_errors import explain


def require_replaceable(folder: Path, mark: str, is_none: str, *, overwrite: bool) -> set[str]:
    """See that a folder may be made, or be replaced.

    Args:
        folder: its path.
        mark: name of a file that is in each folder which the command has made.
        is_none: words for a folder without it, such as ``it is no exported policy``.
        overwrite: replace one that is there.

    Returns:
        The names of what is in it now.

    Raises:
        UserError: it may not; or it can't be looked at.
    """
    try:
        if not os.path.lexists(folder):
            return set()
        if folder.is_symlink() or not folder.is_dir():
            raise UserError(f"can't write {folder}: it is there already, and is no folder")
        inside = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UserError(f"can't write {folder}: {explain(error)}") from error
    if inside and not overwrite:
        raise UserError(
            f"can't write {folder}: it is there already; take another name, or say --overwrite"
            " (overwrite=True in Python)"
        )
    if inside and mark not in inside:
        raise UserError(f"can't overwrite {folder}: {is_none}, for it has no {mark}")
    return inside

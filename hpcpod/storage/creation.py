"""The creation of a run folder: complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcpod.errors import RunExists, StorageError, UserError
from hpcpod.records.records import Document
from hpcpod.storage.board import BoardFile, writer_id
from hpcpod.storage.checksummed import pack
from hpcpod.storage.disk import TEMPORARY, Disk, explain, explained, probe, unique
from hpcpod.storage.layout import CLOSED, SHARED
from hpcpod.storage.ownership import CONFIG
from hpcpod.storage.quarantine import Quarantine

FORMAT = 1
"""The layout of a run folder; a folder of another one is refused."""

Fill = Callable[[Disk, Path], None]
"""Writes into a folder that is being made."""

_ASIDE = TEMPORARY + "run-"
_LEFTOVER_SECONDS = 3600.0
_ASKED_FOR = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


def create_folder(
    path: Path,
    config: dict[str, Any],
    disk: Disk,
    board: Document | None,
    fill: Fill | None = None,
) -> dict[str, Any]:
    """Create a run folder and return its configuration document.

    It is built beside its place, with what ``fill`` writes and generation 0 of its board if there
    is one, and renamed into it. The document says, besides ``config``, the ``format``, how names
    are published on this filesystem, and where it was made: by its path and its number in the
    filesystem.

    Raises:
        RunExists: something is there already.
        UserError: the folder above can't be written.
        StorageError: the filesystem refuses, or can't publish names safely.
    """
    aside = path.parent / (_ASIDE + unique())
    try:
        disk.make_folder(path.parent)
        _remove_leftovers(path.parent)
        _check_free(path)
        with explained("create the run folder", path):
            disk.mkdir(aside)
            disk.root = aside
            for name in (*SHARED, *CLOSED):
                disk.mkdir(aside / name)
            for folder in (aside, *(aside / name for name in CLOSED)):
                disk.close(folder)
        disk.scheme = probe(disk, aside / "control")
        made = {"publish": disk.scheme, "format": FORMAT, "folder": str(path.resolve())}
        with explained("look at", aside):
            inode = aside.stat().st_ino  # a copy has another: copies took each other's jobs
        document = {**config, **made, "inode": inode}
        disk.replace(aside / "config.json", pack(document, indent=1))
        if fill is not None:
            fill(disk, aside)
        if board is not None:
            file = BoardFile(disk, aside / "board", Quarantine(disk, aside))
            file.publish(-1, {}, board, writer_id())
        with explained("create the run folder", path):
            disk.rename(aside, path)
            disk.sync(path.parent)
    except StorageError as error:
        code = getattr(error.__cause__, "errno", None)
        if code in {errno.ENOTEMPTY, errno.EEXIST}:  # by rename(2): another process was first
            raise _exists(path) from error
        if code in _ASKED_FOR:
            raise UserError(str(error)) from error
        raise
    finally:
        if os.path.lexists(aside):
            with contextlib.suppress(StorageError):
                disk.discard(aside)
    return document


def check_creatable(path: Path) -> None:
    """See whether a run folder could be created; nothing is made.

    Raises:
        RunExists: something is there already.
        UserError: the folder above can't be written.
    """
    try:
        _check_free(path)
        with tempfile.TemporaryFile(dir=next(p for p in path.absolute().parents if p.exists())):
            pass
    except OSError as error:
        raise UserError(f"can't create the run folder {path}: {explain(error)}") from error


def _check_free(path: Path) -> None:
    empty = path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    if os.path.lexists(path) and not empty:
        raise _exists(path)


def _exists(path: Path) -> RunExists:
    another = '`--set name=...` (name="..." in Python) gives this one another name'
    if not (path / CONFIG).exists():
        return RunExists(f"there is something else at {path} already; {another}")
    going_on = f"`hpcpod resume {shlex.quote(str(path))}` goes on with it"
    return RunExists(
        f"there is a run at {path} already: {going_on}, if it has not finished; {another}"
    )


def _remove_leftovers(parent: Path) -> None:
    """Remove what a creation of ours that was killed has left here."""
    for path in parent.glob(_ASIDE + "*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            old = found.st_mtime < time.time() - _LEFTOVER_SECONDS
            if old and found.st_uid == os.geteuid():  # a folder of runs may be a group's
                # Others may put links into it meanwhile: this follows none.
                shutil.rmtree(path)

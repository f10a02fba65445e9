"""Saved folders of a program's pods, written as the folders that they were."""

from __future__ import annotations

import json
from pathlib import Path

from hpcpod.errors import StorageError
from hpcpod.run.best_policy import chosen
from hpcpod.storage.disk import explained
from hpcpod.storage.made_folders import require_replaceable
from hpcpod.storage.run_folder import RunFolder

MARK = ".hpcpod-export.json"
"""File of an exported folder: only a folder that has it is replaced."""


def write_saved(
    folder: RunFolder, to: str | Path, pod: str | None = None, *, overwrite: bool = False
) -> Path:
    """Write what the best pod of a program's run, or another one, has saved.

    Args:
        folder: of the run, whose blobs it is read from.
        to: the folder to make.
        pod: whose best checkpoint; None: the winner's, or the leader's so far.
        overwrite: replace a folder that an export has made; what is in it is gone.

    Raises:
        UserError: the run has no such pod, or no checkpoint yet; or the folder is there, or is none
            that an export has made.
        StorageError: it can't be written, or the checkpoint is damaged.
    """
    from hpcpod.storage.saved_folders import replace_folder  # h5py: 0.3 s

    path = Path(to).absolute()
    require_replaceable(path, MARK, "no export has made it", overwrite=overwrite)
    core = _core(folder, pod)
    with explained("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = json.dumps({"format": 1, "run": folder.path.name, "checkpoint": core})
        more = {MARK: mark.encode()}
        replace_folder(folder.disk, folder.blobs, core, path, folder.owner, more)
    return path


def _core(folder: RunFolder, pod: str | None) -> str:
    file = chosen(folder, pod).checkpoint
    if file.suffix != ".h5":  # of a finished run its best is a folder already, of the same blobs
        from hpcpod.tournament.merge import read_board
        from hpcpod.tournament.stopping import leader

        row = leader(read_board(folder))
        if row is None:
            raise StorageError(f"{folder.path} has no checkpoint any more")
        return row.checkpoint.core
    return file.stem

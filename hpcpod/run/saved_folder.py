"""What a program's pod has saved, written as the folder that it was."""

from __future__ import annotations

import shutil
from pathlib import Path

from hpcpod.errors import StorageError, UserError
from hpcpod.run.best_policy import chosen
from hpcpod.storage.disk import explained
from hpcpod.storage.run_folder import RunFolder


def write_saved(
    folder: RunFolder, to: str | Path, pod: str | None = None, *, overwrite: bool = False
) -> Path:
    """Write what the best pod of a program's run, or another one, has saved.

    Args:
        folder: of the run, whose blobs it is read from.
        to: the folder to make.
        pod: whose best checkpoint; None: the winner's, or the leader's so far.
        overwrite: replace a folder that is there.

    Raises:
        UserError: the run has no such pod, or no checkpoint yet; or the folder is there.
        StorageError: it can't be written, or the checkpoint is damaged.
    """
    from hpcpod.storage.saved_folders import write_folder  # h5py: 0.3 s

    path = Path(to).absolute()
    if (path.exists() or path.is_symlink()) and not overwrite:
        raise UserError(f"{path} is there already: say --overwrite, or name another folder")
    core = _core(folder, pod)
    with explained("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        write_folder(folder.blobs, core, path)
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

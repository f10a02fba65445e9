"""Prune a run folder: remove files that no reader needs any more."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hpcpod.errors import StorageError
from hpcpod.storage.disk import TEMPORARY, Disk


def remove_unused(disk: Disk, root: Path, keep: frozenset[str], before: float) -> int:
    """Remove blobs not in ``keep`` and temporary files, last touched before a Unix time.

    Safe beside writers: one whose temporary file is removed while it is stopped writes it anew.
    """
    removed = 0
    # The owner may have a folder of the run on another disk; deeper down no link is followed.
    linked = [path for path in root.glob("*") if path.is_symlink() and path.is_dir()]
    for folder, folders, files in (found for top in (root, *linked) for found in os.walk(top)):
        temporary = [name for name in folders if name.startswith(TEMPORARY)]
        folders[:] = [name for name in folders if not name.startswith(TEMPORARY)]
        leftovers = temporary + [name for name in files if name.startswith(TEMPORARY)]
        if Path(folder).parent == root / "blobs":
            leftovers += [name for name in files if name.endswith(".h5") and name[:-3] not in keep]
        for name in leftovers:
            with contextlib.suppress(StorageError, OSError):
                path = Path(folder) / name
                if path.lstat().st_mtime < before:
                    disk.discard(path)
                    removed += 1
    return removed

"""The identity of a run, which tells its jobs from those of any other, its copies included."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hpcpod.errors import RunNotFound
from hpcpod.storage.checksummed import unpack
from hpcpod.storage.ownership import CONFIG, read_config


def run_id(folder: Path) -> str:
    """The id of the run at ``folder``, or of the one that would be made there: ten hex digits.

    It is a hash of the path at which the run was made, with all links followed. Machines that
    mount a filesystem elsewhere, or that follow other links to it, agree on it therefore. A copy is
    found by its inode. It has an id of its own, a hash of its own path, even if the original is
    removed.

    Raises:
        UserError: this user may not look into the folder.
        Corrupt: its configuration is damaged.
    """
    here = folder.resolve()
    made, inode = _origin(folder)
    if made is None or _is_copy(here, made, inode):
        made = here
    return hashlib.blake2b(os.fsencode(made), digest_size=5).hexdigest()


def _is_copy(here: Path, made: Path, inode: int | None) -> bool:
    try:
        return not made.samefile(here)
    except OSError:  # it is elsewhere on this machine, or gone, or this user may not look there
        return inode is not None and here.stat().st_ino != inode


def _origin(folder: Path) -> tuple[Path | None, int | None]:
    """The path and the inode at which a run was made; None where its configuration has none."""
    try:
        data, _ = read_config(folder)
    except RunNotFound:
        return None, None
    config = unpack(data, str(folder / CONFIG))
    found = config if isinstance(config, dict) else {}
    made, inode = found.get("folder"), found.get("inode")
    return Path(made) if isinstance(made, str) else None, inode

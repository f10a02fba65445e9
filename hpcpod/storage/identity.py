"""By what the jobs of a run are told from those of any other, its copies included."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hpcpod.errors import RunNotFound
from hpcpod.storage.ownership import CONFIG, read_config
from hpcpod.storage.sealed import unseal


def run_id(folder: Path) -> str:
    """The id of the run at ``folder``, or of the one that would be made there: ten hex digits.

    It is a hash of the path at which the run was made, with all links followed. Machines that
    mount a filesystem elsewhere, or that follow other links to it, agree on it therefore. A copy
    has an id of its own while the original is where it was.

    Raises:
        UserError: this user may not look into the folder.
        Corrupt: its configuration is damaged.
    """
    here = folder.resolve()
    made = _made_at(folder) or here
    if made != here and made.exists() and not made.samefile(here):
        made = here
    return hashlib.blake2b(os.fsencode(made), digest_size=5).hexdigest()


def _made_at(folder: Path) -> Path | None:
    try:
        data, _ = read_config(folder)
    except RunNotFound:
        return None
    config = unseal(data, str(folder / CONFIG))
    made = config.get("folder") if isinstance(config, dict) else None
    return Path(made) if isinstance(made, str) else None

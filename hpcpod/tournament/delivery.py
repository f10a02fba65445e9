"""Delivery: the best policy of a run, as files that a person may take away."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from hpcpod.errors import Corrupt
from hpcpod.records.records import Board
from hpcpod.storage.disk import explained
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.provenance import provenance, strange_code
from hpcpod.tournament.stopping import leader

log = logging.getLogger(__name__)

BEST_FOLDER = "best"
"""Of a run whose pods are a program's: what the best one has saved, in the run folder."""


def export_best(folder: RunFolder, board: Board, to: Path | None = None) -> dict[str, Any] | None:
    """Write the best policy to a file; return its provenance.

    By default it is ``best.h5`` in the run folder, with the provenance beside it in
    ``best.json``; of a program what it has saved is in the folder ``best``, too.

    A checkpoint that is damaged or gone, or names strange code, is passed over for the next best;
    None if none is left.
    """
    best = leader(board)
    # if what is delivered is damaged, the finalists are next
    ranked = sorted(
        (score for score in board.confirmed if score.purpose == "final" and score.episodes > 0),
        key=lambda score: -score.mean,
    )
    for row in [*([best] if best is not None else []), *ranked, *board.entries]:
        data = _sound_blob(folder, row.checkpoint.core)
        if data is None:
            continue
        if named := strange_code(data, folder.resolved):
            said = "names code that the run's configuration does not, and is passed over"
            log.warning("blob %s %s: %s", row.checkpoint.core, said, ", ".join(named))
            continue
        if to is None and not _program_delivered(folder, row.checkpoint.core):
            continue
        about = provenance(board, row)
        # Plain copies: a person may take them away, and pruning never looks here.
        folder.disk.replace(to or folder.path / "best.h5", data)
        if to is None:
            folder.disk.replace(folder.path / "best.json", json.dumps(about, indent=2).encode())
        return about
    return None


def _sound_blob(folder: RunFolder, sha256: str) -> bytes | None:
    """A blob's bytes as they are."""
    path = blob_path(folder.path / "blobs", sha256)
    try:
        data = folder.disk.read(path, None, sha256)
    except Corrupt as error:
        folder.quarantine.move(path, f"blob {error}")
        return None
    if data is None:
        log.warning("blob %s is missing", path)
    return data


def _program_delivered(folder: RunFolder, core: str) -> bool:
    """Put what a program has saved into the run folder; False if a part of it is damaged or gone.
    Of a run without a program there is nothing to do.

    Raises:
        StorageError: the filesystem refuses.
    """
    if folder.resolved.config.program is None:
        return True
    from hpcpod.storage.saved_folders import replace_folder  # h5py: once, when a run ends

    best = folder.path / BEST_FOLDER
    try:
        with explained("write", best):
            replace_folder(folder.disk, folder.blobs, core, best, folder.owner)
    except Corrupt as error:
        log.warning("%s", error)
        return False
    return True

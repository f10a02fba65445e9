"""The facts by which a run is given advice, read from its files."""

from __future__ import annotations

import contextlib
import os
from statistics import median

from hpcpod.records.records import Board
from hpcpod.run.advice import Facts
from hpcpod.storage.run_folder import RunFolder


def facts_of(folder: RunFolder, board: Board) -> Facts:
    """The facts of a run; the scheduler is asked nothing."""
    records = folder.restarts.all()
    waits = []
    for intent in folder.intents.all():
        job = folder.intents.submission(intent.number) if intent.kind == "slots" else None
        ours = [each for slot, each in records.items() if job and slot.startswith(f"{job}_")]
        waits += [max(0.0, each.began - intent.time) for each in ours if each.began]
    return Facts(
        config=folder.resolved.config,
        records=records,
        ended=board.phase == "finished",
        queued=median(waits) if waits else None,
        disk=_blobs(folder),
    )


def _blobs(folder: RunFolder) -> float:
    """Bytes of checkpoints."""
    total = 0
    for found, _, files in os.walk(folder.path / "blobs"):
        for name in files:
            with contextlib.suppress(OSError):  # it was pruned meanwhile
                total += os.lstat(os.path.join(found, name)).st_size  # noqa: PTH118
    return float(total)

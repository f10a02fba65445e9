"""A run's filesystem without room for another checkpoint: the words."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.run.text import size
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.stopping import leader

LEAST = 100_000
"""Bytes that a run needs for what is no checkpoint: boards, reports, logs."""


def full(folder: RunFolder, seen: Snapshot) -> Iterator[str]:
    """The words on the filesystem of a run that has not ended, if it is full."""
    found = leader(seen.board)
    blobs = folder.path / "blobs"
    policy = None if found is None else blob_path(blobs, found.checkpoint.core)
    if seen.state != "finished" and (words := full_words(folder.path, policy)):
        yield words


def full_words(folder: Path, policy: Path | None) -> str:
    """The words on a filesystem that can't hold another checkpoint; empty where it can.

    Args:
        folder: on that filesystem.
        policy: the file of one of its policies, which is as large as the next one's.

    A quota that is used up does not show: a filesystem tells of it only when something is written.
    """
    needed = LEAST
    with contextlib.suppress(OSError):  # a looker may see neither
        if policy is not None:
            needed = max(LEAST, policy.stat().st_size)
        if (free := shutil.disk_usage(folder).free) < needed:
            what = f"it has {size(free)} left, and a checkpoint takes up to {size(needed)}"
            return f"the filesystem of {folder} is full: {what}; slots wait until there is room"
    return ""

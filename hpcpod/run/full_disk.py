"""A run's filesystem without room for another checkpoint: the words."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from hpcpod.run.text import size

LEAST = 100_000
"""Bytes that a run needs for what is no checkpoint: boards, reports, logs."""


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

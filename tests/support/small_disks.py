"""Filesystems that can be filled, where mounting is permitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(home: Path, kib: int) -> Iterator[Path]:
    """A filesystem of ``kib`` KiB and a thousand files, mounted at a new folder."""
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,nr_inodes=1000", "tmpfs", str(home)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        required = os.geteuid() == 0 and os.environ.get("HPCPOD_REQUIRE_ALL")
        why = f"a filesystem of its own can't be mounted here: {done.stderr.strip()}"
        (pytest.fail if required else pytest.skip)(why)
    try:
        yield home
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


@contextmanager
def filled(home: Path) -> Iterator[None]:
    """Leave no free byte on a filesystem, for as long as the body runs."""
    filler = home / "filler"
    with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    yield
    filler.unlink()

"""Fresh directory entries on NFS: a client that remembers old answers asks the server again.

A client of a network filesystem believes for up to a minute what it was told: a file's attributes,
a listing, that there is no such name. To open a folder is enough for NFS as it is mounted by
default: what others had closed before is seen after. Where it is not, a change of one's own
in the folder is, for no client can tell any more what else is new in it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from hpcpod.storage.disk import TEMPORARY, Disk, unique
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder

BELIEVED_SECONDS = 90.0
"""Longer than a client believes what it was told, unless its administrator has it do so: Linux's
NFS does for 60."""


def ask_again(disk: Disk, folder: Path) -> bool:
    """Have the server asked for what is in a folder; False if an old answer may still be given,
    for nothing can be written there."""
    temporary = folder / (TEMPORARY + unique())
    try:
        disk.sync(folder)
        disk.write_new(temporary, b"", durable=False)
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)


def look_again(run: RunFolder) -> bool:
    """Have whoever reads next see all that had been done for a run before this was called: its
    newest generations, its slots and what is asked of it; False if that is not certain."""
    sure = ask_again(run.disk, run.path / "board")
    found = run.board.read()
    newest = run.board.path(0 if found is None else found[0] + 1).parent
    shown = ask_again(run.disk, run.path / "slots")
    return _below(run.disk, newest) and sure and shown


def listen_again(run: RunFolder) -> bool:
    """The same of what is asked of the run, and of its slots."""
    sure = ask_again(run.disk, run.path / "control")
    return _below(run.disk, run.path / "control" / "retire") and sure


def await_report(run: RunFolder, order: str) -> bool:
    """The same of an order's report."""
    sure = ask_again(run.disk, run.path / "reports")
    return _below(run.disk, sharded(run.path / "reports", order).parent) and sure


def _below(disk: Disk, folder: Path) -> bool:
    """The same of a folder in one that was asked for; it may not be there."""
    return not disk.exists(folder) or ask_again(disk, folder)

"""Fresh directory entries on NFS: a client that remembers old answers asks the server again.

A client of a network filesystem believes old answers for up to a minute: a file's attributes,
a listing, that there is no such name. To open a folder is enough for NFS as it is mounted by
default: files that others had closed before are seen after. On other mounts a change of this
client's own in the folder is enough: the client can't tell any more what else is new in it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from hpcpod.storage.disk import TEMPORARY, Disk, unique
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder

BELIEVED_SECONDS = 90.0
"""Time after which a client has forgotten old answers. Linux's NFS keeps them for 60 s, unless the
administrator has set ``acdirmax``."""


def refresh_folder(disk: Disk, folder: Path) -> bool:
    """Have the client ask the server for the content of a folder.

    False if old answers may still come, because this process can't write there.
    """
    temporary = folder / (TEMPORARY + unique())
    try:
        disk.sync(folder)  # opens it: NFS asks the server then (close-to-open)
        disk.write_new(temporary, b"", durable=False)
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)


def refresh_run(run: RunFolder) -> bool:
    """Have the next read see all that was written to a run's board and slots before this call.

    False if that is not certain.
    """
    # Without it status said of a run that was just ending: interrupted, resume it.
    sure = refresh_folder(run.disk, run.path / "board")
    found = run.board.read()
    newest = run.board.path(0 if found is None else found[0] + 1).parent
    shown = refresh_folder(run.disk, run.path / "slots")
    return _below(run.disk, newest) and sure and shown


def refresh_requests(run: RunFolder) -> bool:
    """Have the next read see all requests to the run and to its slots; False if not certain."""
    # Without it a slot that was signalled, and asked to leave, had itself requeued.
    sure = refresh_folder(run.disk, run.path / "control")
    return _below(run.disk, run.path / "control" / "retire") and sure


def refresh_report(run: RunFolder, order: str) -> bool:
    """Have the next read see the report of an order; False if not certain."""
    # Without it a round that a slot had reported before it went was given out again.
    sure = refresh_folder(run.disk, run.path / "reports")
    return _below(run.disk, sharded(run.path / "reports", order).parent) and sure


def _below(disk: Disk, folder: Path) -> bool:
    """``refresh_folder`` for a folder in one that is fresh; True if it is not there."""
    return not disk.exists(folder) or refresh_folder(disk, folder)

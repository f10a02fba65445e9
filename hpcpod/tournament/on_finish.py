"""The command of ``on_finish``: run once, when a run has finished, by a process of its owner."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import time
from pathlib import Path

from hpcpod._process import ending
from hpcpod.errors import StorageError, UserError
from hpcpod.records.records import Board
from hpcpod.storage.checksummed import pack
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.stopping import leader

SECONDS = 60.0
"""Time that the command has."""
KILL_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for one that takes longer."""
TIMED_OUT = 124
"""Exit code of timeout(1) for a command that it had to end."""

log = logging.getLogger(__name__)


def on_finish_mark(folder: RunFolder, board: Board) -> Path:
    """The file that says that the command was begun, for this end of the run."""
    again = f"-{len(board.endings)}" if board.endings else ""  # once for each end
    return folder.path / "control" / f"on_finish{again}.json"


def run_on_finish(folder: RunFolder, board: Board, seconds: float = SECONDS) -> None:
    """Run the command, if the run has one and has finished, and no process has begun it yet.

    It is never the run's failure: whatever goes wrong is a warning. A process that is killed
    between its mark and the end of the command leaves it undone: none begins it again.

    Args:
        folder: the run's.
        board: the latest.
        seconds: after which the command is ended.
    """
    command = folder.resolved.config.on_finish
    if command is None or board.phase != "finished" or not folder.owner.mine:
        return
    mark = on_finish_mark(folder, board)
    if os.path.lexists(mark):
        return
    try:
        # Shell code is the owner's only where no other user can have written it.
        folder.owner.require_code((), "run its on_finish")
        who = {"host": socket.gethostname(), "pid": os.getpid(), "time": time.time()}
        if not folder.disk.publish(mark, pack(who)):
            return
        failure = _failure(_run(folder, board, command, seconds), seconds)
    except (StorageError, UserError, OSError, ValueError) as error:  # ValueError: NUL in a value
        failure = str(error)
    if failure:
        log.warning("%s: on_finish: %s", folder.resolved.config.name, failure)


def _run(folder: RunFolder, board: Board, command: str, seconds: float) -> int:
    """The command's exit code, or that of timeout(1), which holds the limit though this process
    may be killed."""
    best = leader(board)
    about = {
        "HPCPOD_RUN": str(folder.path),
        "HPCPOD_NAME": folder.resolved.config.name,
        "HPCPOD_STATE": "failed" if board.stop_reason == "failed" else "finished",
        "HPCPOD_REASON": board.failure or board.stop_reason or "",
        "HPCPOD_BEST": "" if best is None else f"{best.mean:.6g}",
    }
    with (folder.path / "logs" / "on_finish.log").open("ab") as output:
        return subprocess.Popen(
            ["timeout", f"--kill-after={KILL_SECONDS:g}", f"{seconds:g}", "/bin/sh", "-c", command],
            cwd=folder.path, env={**os.environ, **about}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        ).wait()  # fmt: skip


def _failure(code: int, seconds: float) -> str:
    """The failure that an exit code tells of, with the place of the output; else empty."""
    if code == 0:
        return ""
    late = f"did not end within {seconds:g} s, and was ended"
    return f"the command {late if code == TIMED_OUT else ending(code)}; see logs/on_finish.log"

"""The coordinator's loop: tick a run until it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from hpcpod.errors import LaunchError, RunNotFound, StorageError
from hpcpod.launchers.local import LocalLauncher
from hpcpod.orchestrator.backoff import QUIET
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.records.records import Board
from hpcpod.storage.freshness import BELIEVED_SECONDS
from hpcpod.storage.os_errors import may_exist
from hpcpod.storage.ownership import CONFIG
from hpcpod.storage.retry import sleep
from hpcpod.storage.run_folder import RunFolder

GLANCE_SECONDS = 1.0  # of files alone: no question to Slurm
"""Pause between two glances at what people ask of a run."""

log = logging.getLogger(__name__)


def drive(
    orchestrator: Orchestrator,
    stop: Callable[[], bool],
    seconds: float,
    on_tick: Callable[[Board], None] = lambda board: None,
) -> Board:
    """Tick until the run has ended or is drained, or ``stop`` is true; return the last board.

    A scheduler or a disk that refuses is asked again at the next tick, as is one on which the run
    is not seen for moments. While nothing happens the pauses between two grow up to ``QUIET``
    times as long; a request of a person ends one.

    Args:
        orchestrator: of the run.
        stop: true to end now.
        seconds: between two ticks.
        on_tick: called with each board.

    Raises:
        RunNotFound: the run's folder is not there for over ``BELIEVED_SECONDS``.
    """
    pause, unseen = seconds, None
    while True:
        board = None
        orchestrator.quiet = False
        try:
            board = orchestrator.tick()
            on_tick(board)
        except (LaunchError, StorageError, RunNotFound) as error:
            log.warning("%s; trying again at the next tick", error)
        now = time.monotonic()
        unseen = None if may_exist(orchestrator.path / CONFIG) else unseen or now
        if unseen is not None and now - unseen > BELIEVED_SECONDS:
            # one that was removed was waited for until its parent ended
            raise RunNotFound(f"the run folder {orchestrator.path} is gone; its slots end, too")
        if board is not None and (board.phase == "finished" or orchestrator.drained):
            return board
        if stop():
            return board if board is not None else orchestrator.board()
        pause = min(1.5 * pause, QUIET * seconds) if orchestrator.quiet else seconds
        end = time.monotonic() + pause
        while (left := end - time.monotonic()) > 0 and not (stop() or orchestrator.asked()):
            sleep(min(left, GLANCE_SECONDS), stop)


def drive_here(
    folder: RunFolder,
    stop: Callable[[], bool],
    on_tick: Callable[[Board], None] = lambda board: None,
    on_death: Callable[[str], object] = log.error,
) -> Board:
    """Run the slots of a local run as children of this process, and tick until it ends.

    However this returns or raises, no slot is left.

    Raises:
        LaunchError: another process does so already.
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    folder.owner.require_code((), "train")
    with folder.locks.driver() as alone:
        if alone is False:
            raise LaunchError(f"another process runs the slots of {folder.path} already")
        config = folder.resolved.config
        launcher = LocalLauncher(folder.path, config, on_death)
        interval = config.cluster.tick_interval
        try:
            return drive(Orchestrator(folder, launcher), stop, interval, on_tick)
        finally:
            launcher.close()

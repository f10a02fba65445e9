"""``python -m hpcpod.orchestrator RUN``: the coordinator, as a job or a process here."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hpcpod._process import REQUEUE, StopFlag
from hpcpod.errors import exit_code
from hpcpod.launchers.factory import launcher_of
from hpcpod.launchers.identity import admitted, identity
from hpcpod.orchestrator.loop import drive, drive_here
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

log = logging.getLogger("hpcpod.orchestrator")


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.orchestrator RUN``: the coordinator, as a job or a process here."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.orchestrator", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--token", help="the intent that it was submitted for")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signalled = StopFlag((signal.SIGTERM, signal.SIGUSR2))

    def stop() -> bool:
        # The kernel's parent-death signal comes when the *thread* that started this ends.
        return bool(signalled) or options.parent not in (None, os.getppid())

    return exit_code(lambda: _coordinate(options.run, options.token, stop), log.error)


def _coordinate(run: Path, token: str | None, stop: Callable[[], bool]) -> int:
    folder = RunFolder.open(run)
    folder.owner.require_mine()
    cluster = folder.resolved.config.cluster
    if cluster.launcher == "local":
        board = drive_here(folder, stop)
        return 0 if board.phase == "finished" or not stop() else REQUEUE
    if not admitted(folder, token, identity()):
        return 0
    orchestrator = Orchestrator(folder, launcher_of(folder))
    while not stop():
        with folder.locks.coordinator() as leading:
            if leading:
                board = drive(orchestrator, stop, cluster.tick_interval)
                if board.phase == "finished" or orchestrator.drained:
                    log.info("the run has ended: %s", board.stop_reason or "drained")
                    return 0
            elif read_board(folder).phase == "finished":
                return 0
        if not stop():
            time.sleep(1.0)
    return REQUEUE


if __name__ == "__main__":
    sys.exit(main())

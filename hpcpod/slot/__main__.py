"""``python -m hpcpod.slot RUN``: what a batch script runs."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from pathlib import Path

from hpcpod._process import PYTHON, REQUEUE, StopFlag, die_with_parent
from hpcpod.errors import StorageError, exit_code
from hpcpod.launchers.identity import admitted, check_code, identity
from hpcpod.slot.slot import Slot
from hpcpod.storage.locks import LEASE_SECONDS
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import LANE
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.on_finish import on_finish_mark, run_on_finish

log = logging.getLogger("hpcpod.slot")

ASK_SECONDS = 5.0
"""Interval between two looks for a coordinator that runs the command of ``on_finish``."""


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.slot RUN``: what a batch script runs."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.slot", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--token", help="the intent that this slot was submitted for")
    parser.add_argument("--slot", help="the slot's name (default: from Slurm's environment)")
    parser.add_argument("--job", help="the job's id (default: from Slurm's environment)")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    if (options.run / "sweep.json").exists():  # templates of users' own name this module
        os.execv(PYTHON[0], [*PYTHON, "-m", "hpcpod.run.sweeps", str(options.run)])
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))  # first: without a handler SIGUSR2 kills
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.parent is not None:
        die_with_parent(options.parent, signal.SIGTERM)
    return exit_code(lambda: _serve(options, stop), log.error)


def _serve(options: argparse.Namespace, stop: StopFlag) -> int:
    folder = RunFolder.open(options.run)
    check_code(folder, options.token)
    guest, alone = not folder.owner.mine, options.token is None
    owner = identity(options.slot, options.job, guest=guest, alone=alone)
    if not admitted(folder, options.token, owner):
        return 0
    log.info("slot %s of job %s on %s", owner.slot, owner.job, owner.host)
    code = Slot(folder, owner, stop).run()
    _finish(folder, stop)
    if code == REQUEUE and LANE in owner.slot:
        # Of several tasks srun tells a signal before any code: a lane that was killed hid another's
        # 75, but not that another was ended by TERM, after which the script requeues the job, too.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return code


def _finish(folder: RunFolder, stop: StopFlag) -> None:
    """Run the command of ``on_finish`` if the run has finished and no coordinator is there to.

    A coordinator that lives holds its lease, and runs the command itself. One that was killed holds
    it for ``LEASE_SECONDS`` more: until then it can't be told from one that lives.
    """
    config = folder.resolved.config
    if config.on_finish is None or config.cluster.launcher == "local" or not folder.owner.mine:
        return
    try:
        board, end = read_board(folder), time.monotonic() + 2 * LEASE_SECONDS
        while board.phase == "finished" and time.monotonic() < end and not stop:
            if os.path.lexists(on_finish_mark(folder, board)):
                return
            with folder.locks.coordinator() as leading:
                if leading:
                    run_on_finish(folder, board)
                    return
            time.sleep(ASK_SECONDS)
    except StorageError as error:
        log.warning("%s", error)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m hpcpod.run.sweeps SWEEP``: an element of a sweep's array, which runs its cells."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from hpcpod._process import StopFlag
from hpcpod.errors import exit_code
from hpcpod.run.sweeps.driver import Driver, log
from hpcpod.run.sweeps.folder import open_sweep


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.run.sweeps SWEEP``: an element of a sweep's array."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.run.sweeps", description=__doc__)
    parser.add_argument("sweep", type=Path, help="the sweep's folder")
    parser.add_argument("--at-once", type=int, default=1, help="cells that are run at once (1)")
    options = parser.parse_args(arguments)
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return exit_code(lambda: _serve(options, stop), log.error)


def _serve(options: argparse.Namespace, stop: StopFlag) -> int:
    sweep = open_sweep(options.sweep)
    sweep.owner.require_mine()
    sweep.owner.require_code((), "train")
    return Driver(
        sweep, options.at_once, lambda: bool(stop),
        lambda cell, outcome: log.info("cell %s: %s", cell.name, outcome),
    ).run()  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

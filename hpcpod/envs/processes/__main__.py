"""The process that steps some of a batch's environments; ``pool`` starts it and gives it orders.

It imports the environment's own module before torch, as a pod does.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys

from hpcpod import plugins
from hpcpod._process import end_group_with


def main() -> None:
    """Read the request from standard input and serve until the command to close."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.envs.processes", description=__doc__)
    for name, what in (
        ("wire", "the socket"),
        ("go", "the eventfd to wait on"),
        ("done", "the batch's eventfd"),
        ("memory", "the shared memory"),
    ):
        parser.add_argument(f"--{name}", type=int, required=True, help=f"descriptor of {what}")
    options = parser.parse_args()

    end_group_with(options.wire)
    # Slurm signals every process of a job: the batch is stepped on until its owner has saved it.
    # Handlers, not SIG_IGN, which what a simulator starts would inherit.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    level = logging.WARNING if request["place"] == 0 else logging.ERROR  # say it once
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    plugins.load_early(request["env"])
    plugins.import_torch()

    from hpcpod.envs.processes.worker import serve

    serve(request, options.wire, options.go, options.done, options.memory)


if __name__ == "__main__":
    main()

"""The actor process of a pipeline: ``python -m hpcpod.pod.pipeline``, a pod's child.

It has environments and an agent of its own, and does what its parent asks for, one thing after
another, until the parent closes the connection or ends.
"""

from __future__ import annotations

import argparse
import logging
import signal
from multiprocessing.connection import Connection

from hpcpod import plugins
from hpcpod._process import StopFlag, die_with_parent


def main() -> None:
    """Serve one parent."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.pod.pipeline", description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="descriptor of a socket")
    parser.add_argument("--outgoing", type=int, required=True, help="of shared memory")
    parser.add_argument("--incoming", type=int, required=True, help="of shared memory")
    parser.add_argument("--parent", type=int, required=True, help="its process id")
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # A scheduler signals every process. The parent ends its iteration first, which needs this one.
    StopFlag((signal.SIGTERM, signal.SIGINT, signal.SIGUSR2))
    die_with_parent(options.parent)
    connection = Connection(options.socket)
    config, gpu = connection.recv()
    if config.env.python is None:
        plugins.load_early(config.env.id)  # before torch
    plugins.import_torch()

    from hpcpod.pod.pipeline.actor import serve
    from hpcpod.pod.pipeline.channel import Channel

    serve(Channel(connection, options.outgoing, options.incoming), config, gpu)


if __name__ == "__main__":
    main()

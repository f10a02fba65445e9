"""The training process of a slot: orders come in on standard input, replies leave on a pipe.

It is a process of its own so that running out of memory or a crash inside a simulator ends
the round and not the slot. Its standard output and error go to the slot's log.

One reply is one line of JSON: ``{"progress": {...}}`` while a round goes on, then one of
``{"report": {...}}``, ``{"stopped": true}`` or ``{"failure": ..., "kind": ...}``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.resolved import Resolved
from hpcpod.errors import (
    Corrupt,
    Diverged,
    StorageError,
    UnknownPlugin,
    in_words,
    out_of_memory,
)
from hpcpod.pod.signals import StopFlag, die_with_parent, end_group_with
from hpcpod.records import Birth, Order, Rescore, decode, encode
from hpcpod.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from hpcpod.pod.pod import Pod

LONGEST_REASON = 300
"""Letters of a failure's reason on the board."""

BEAT_SECONDS = 1.0
"""Between two signs of life while there is no progress to tell, as in an evaluation."""

Reply = Callable[[dict[str, Any]], None]


def main() -> int:
    """Serve orders until standard input ends or a stop is asked for."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.pod", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--slot", required=True, help="the slot's name")
    parser.add_argument("--reply", type=int, required=True, help="file descriptor of the pipe")
    parser.add_argument("--parent", type=int, required=True, help="process id of the slot")
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_group_with(options.reply)
    die_with_parent(options.parent)
    replies = os.fdopen(options.reply, "w", buffering=1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")

    serve(RunFolder.open(options.run), options.slot, stop, reply)
    return 75 if stop else 0


def serve(folder: RunFolder, slot: str, stop: StopFlag, reply: Reply) -> None:
    """Execute orders from standard input, one line each."""
    pod: Pod | None = None
    for line in sys.stdin:
        message = json.loads(line)
        kind: Any = Birth if message["kind"] == "birth" else Rescore
        order: Order = decode(kind, message["order"])
        try:
            if pod is None:
                pod = prepare(folder)
            reply(execute(pod, order, slot, stop, reply))
        except Corrupt as error:
            traceback.print_exc()
            reply({"failure": str(error), "kind": "corrupt"})
        except StorageError as error:
            reply({"failure": str(error), "kind": "storage"})
        except Diverged as error:
            traceback.print_exc()
            reply({"failure": str(error), "kind": "diverged"})
        except Exception as error:
            traceback.print_exc()
            kind = "memory" if out_of_memory(error) else "crash"
            reply({"failure": _sentence(error), "kind": kind})
        if stop:
            return


def prepare(folder: RunFolder) -> Pod:
    """Import what a pod needs, the environment's own module first.

    Some simulators (Isaac Gym) refuse to be imported once torch is there.
    """
    resolved = Resolved.from_document(folder.config)
    with contextlib.suppress(UnknownPlugin):  # making the environment says why
        plugins.load(resolved.config.env.id)

    from hpcpod.pod.numerics import set_numerics
    from hpcpod.pod.pod import Pod

    set_numerics(resolved.config)
    return Pod(folder, resolved.config, resolved.algorithms)


def execute(pod: Pod, order: Order, slot: str, stop: StopFlag, reply: Reply) -> dict[str, Any]:
    """Execute one order; return the reply that ends it."""
    from hpcpod.pod.evaluator import Stopped
    from hpcpod.pod.pod import Progress, Watch

    beaten = time.monotonic()

    def should_stop() -> bool:
        nonlocal beaten
        if time.monotonic() - beaten > BEAT_SECONDS:
            beaten = time.monotonic()
            reply({"progress": {}})
        return bool(stop)

    def tell(progress: Progress) -> None:
        reply({"progress": encode(progress)})

    try:
        report = pod.execute(order, slot, Watch(should_stop, tell))
    except Stopped:
        return {"stopped": True}
    return {"report": encode(report)}


def _sentence(error: Exception) -> str:
    """One line of an error: torch's have dozens, and the log has the traceback."""
    text = in_words(error)
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."


if __name__ == "__main__":
    sys.exit(main())

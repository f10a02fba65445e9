"""What a slot tells its training processes, a line each on their standard input."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from hpcpod.records import Birth, Order, Rescore, decode, encode

_GRANULE = 1 << 16
_GLANCE_SECONDS = 0.02
"""Between two looks whether there is a new line: an environment's step may take microseconds."""

STOP = json.dumps({"kind": "stop"})
"""Checkpoint, and end."""
_STOP = f"{STOP}\n".encode()


def line_of(order: Order) -> str:
    """What ``Orders`` reads."""
    kind = "rescore" if isinstance(order, Rescore) else "birth"
    return json.dumps({"kind": kind, "order": encode(order)})


class Orders:
    """Reads orders, one after another, and the word to stop at any time."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._received = b""
        self._ended = False
        self._looked = 0.0
        self._stopped = False

    def next(self) -> Order | None:
        """Wait for the next order; None when there will be no more."""
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                message: dict[str, Any] = json.loads(line)
                if message["kind"] == "stop":
                    return None
                kind: Any = Birth if message["kind"] == "birth" else Rescore
                order: Order = decode(kind, message["order"])
                return order
            if self._ended:
                return None
            self._read()

    def asked_to_stop(self) -> bool:
        """Whether there was the word to stop, or nobody is there any more who could give it.

        It looks at most every 20 ms.
        """
        now = time.monotonic()
        if not self._stopped and now - self._looked >= _GLANCE_SECONDS:
            self._looked = now
            if select.select([self._descriptor], [], [], 0.0)[0]:
                self._read()
                self._stopped = self._ended or _STOP in self._received
        return self._stopped

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _GRANULE)
        self._ended = not chunk
        self._received += chunk

"""The inbox of a training process: one message of the slot a line, on standard input."""

from __future__ import annotations

import json
import os
import select
import time

from hpcpod.pod.ipc.messages import Work

_GRANULE = 1 << 16
_GLANCE_SECONDS = 0.02
"""Between two looks whether there is a new line: an environment's step may take microseconds."""

STOP = json.dumps({"kind": "stop"})
"""Save what is being done, and end."""
GIVE_UP = json.dumps({"kind": "give up"})
"""What is being done counts for nothing: drop it, and wait for other work."""


class Orders:
    """Reads work, one piece after another, and at any time the words to stop or to give up."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._received = b""
        self._ended = False
        self._looked = 0.0
        self.stop = False
        """There was the word to stop, or nobody is there any more who could give it."""
        self.void = False
        """There was the word to give up what is being done."""

    def next(self) -> Work | None:
        """Wait for the next piece of work; None when there will be no more."""
        self.void = False
        while not self.stop:
            line = self._line()
            if line is not None and (work := self._heed(line)) is not None:
                self.void = False
                return work
            if line is None:
                self._read()
                self.stop = self._ended and b"\n" not in self._received
        return None

    def look(self) -> None:
        """Look for a word, if the last look was 20 ms ago; while there is work comes no other."""
        now = time.monotonic()
        if self.stop or now - self._looked < _GLANCE_SECONDS:
            return
        self._looked = now
        if select.select([self._descriptor], [], [], 0.0)[0]:
            self._read()
            while (line := self._line()) is not None:
                self._heed(line)
            self.stop = self.stop or self._ended

    def wait_for_end(self) -> None:
        """Wait until nobody is there any more who could say something."""
        while not self._ended:
            self._read()

    def _heed(self, line: bytes) -> Work | None:
        kind = json.loads(line)["kind"]
        if kind == "stop":
            self.stop = True
        elif kind == "give up":
            self.void = True
        else:
            return Work.parse(line.decode())
        return None

    def _line(self) -> bytes | None:
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        return line

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _GRANULE)
        self._ended = not chunk
        self._received += chunk

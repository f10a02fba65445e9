"""The inbox of a slot's child process: work and commands, a line each on its standard input."""

from __future__ import annotations

import os
import select
import time

from hpcpod.pod.ipc.messages import Work, parse_order

_GRANULE = 1 << 16  # bytes
_GLANCE_SECONDS = 0.02
"""Interval between two looks for a new line: an environment's step may take microseconds."""


class Inbox:
    """Reads work, one piece after another, and at any time a command."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._received = b""
        self._ended = False
        self._looked = 0.0
        self.stop = False
        """The process is to stop: by command, or since the slot's end of the pipe is closed."""
        self.discard = False
        """The work in hand is to be discarded."""

    def next(self) -> Work | None:
        """Wait for the next piece of work; None when there will be no more."""
        self.discard = False
        while not self.stop:
            line = self._line()
            if line is not None and (work := self._obey(line)) is not None:
                self.discard = False
                return work
            if line is None:
                self._read()
                self.stop = self._ended and b"\n" not in self._received
        return None

    def look(self) -> None:
        """Look for a command, if the last look was 20 ms ago. No more work comes meanwhile."""
        now = time.monotonic()
        if self.stop or now - self._looked < _GLANCE_SECONDS:
            return
        self._looked = now
        if select.select([self._descriptor], [], [], 0.0)[0]:
            self._read()
            while (line := self._line()) is not None:
                self._obey(line)
            self.stop = self.stop or self._ended

    def wait_for_end(self) -> None:
        """Wait until the slot's end of the pipe is closed."""
        while not self._ended:
            self._read()

    def _obey(self, line: bytes) -> Work | None:
        order = parse_order(line.decode())
        if isinstance(order, Work):
            return order
        self.stop = self.stop or order == "stop"
        self.discard = self.discard or order == "discard"
        return None

    def _line(self) -> bytes | None:
        line, newline, rest = self._received.partition(b"\n")  # a line may come in pieces
        if not newline:
            return None
        self._received = rest
        return line

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _GRANULE)
        self._ended = not chunk
        self._received += chunk

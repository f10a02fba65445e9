"""The pace of work that is done again and again: a small share of a core, whatever it costs."""

from __future__ import annotations

import time


class Pace:
    """A kind of work: ``with pace:`` does it once, ``pace.due`` says when it may be done again.

    After work that took c CPU seconds it rests for c / share: 2,000 pods are looked at more seldom
    than four.
    """

    def __init__(self, seconds: float, share: float) -> None:
        """Args:
        seconds: the shortest interval between two beginnings.
        share: of a core that the work may take in the long run.
        """
        self._seconds = seconds
        self._share = share
        self._next = time.monotonic()
        self._began = self._used = 0.0

    @property
    def left(self) -> float:
        """Seconds until it is due; 0 if it is."""
        return max(0.0, self._next - time.monotonic())

    @property
    def due(self) -> bool:
        """True if the work may be done again."""
        return self.left == 0

    def __enter__(self) -> None:
        self._began, self._used = time.monotonic(), time.process_time()

    def __exit__(self, *_: object) -> None:
        rest = (time.process_time() - self._used) / self._share
        # What is done before its time is paid for later: the share holds in the long run.
        self._next = max(self._next, self._began) + max(self._seconds, rest)

"""Time of a simulation: what happens next, and nothing in between."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Loop:
    """Events by time, those of one time in the order in which they were asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        """The second that it is."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._asked = 0

    def at(self, second: float, action: Callable[[], None]) -> None:
        """Do this then, or now if that has passed."""
        self._asked += 1
        heapq.heappush(self._events, (max(second, self.now), self._asked, action))

    def run(self, until: float) -> None:
        """Let time pass up to and with this second."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until

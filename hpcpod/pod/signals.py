"""Being told to stop: a handler sets a flag and does nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from types import FrameType


class StopFlag:
    """True once one of the signals has arrived. Poll it; never act in a handler."""

    def __init__(self, signals: Iterable[signal.Signals] = ()) -> None:
        self._set = False
        for number in signals:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._set = True

    def set(self) -> None:
        """As if a signal had arrived."""
        self._set = True

    def __bool__(self) -> bool:
        return self._set

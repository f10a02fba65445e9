"""Stop requests: the ways to stop a slot; ``docs/stopping.md`` has the table."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Literal

from hpcpod._process import StopFlag
from hpcpod.errors import StorageError
from hpcpod.storage.requests import Drain, Finals, Stop
from hpcpod.storage.run_folder import RunFolder

Way = Literal["stop", "drain", "discard"]
"""``stop``: checkpoint and leave now. ``drain``: leave after the round in hand. ``discard``: rounds
count for nothing any more, since the run scores its finalists; drop them."""


class StopRequests:
    """The stop requests to one slot: by a signal, or by files in the run folder."""

    def __init__(self, folder: RunFolder, slot: str, signal: StopFlag, seconds: float) -> None:
        """Args:
        folder: the run's.
        slot: the slot's name.
        signal: true once the scheduler, or a person, has signalled this process.
        seconds: between two looks of ``look``: thousands of slots share a disk.
        """
        self._folder = folder
        self._slot = slot
        self._seconds = seconds
        self._looked = -math.inf
        self._asked: set[Way] = set()
        self.signal = signal

    def look(self) -> None:
        """Read the run folder, if the last look is long enough ago."""
        if time.monotonic() - self._looked >= self._seconds:
            self._looked = time.monotonic()
            self.read()

    def read(self) -> set[Way]:
        """Read the run folder; while it can't be read, what it has asked for."""
        with contextlib.suppress(StorageError):  # a slot ended at that, and its round was lost
            requests, retiring = self._folder.requests, self._folder.slots.retiring(self._slot)
            drain, found = requests.read(Drain), set[Way]()
            if requests.read(Finals) is not None:
                found.add("discard")
            if retiring == "now" or (drain and drain.now) or requests.read(Stop) is not None:
                found.add("stop")
            elif retiring or drain:
                found.add("drain")
            self._asked = found
        return self._asked

    def asked(self, *ways: Way) -> bool:
        """True if one of these ways was asked for, as of the last look; a signal asks to stop."""
        return bool(self._asked.intersection(ways)) or ("stop" in ways and bool(self.signal))

    def stopping(self) -> bool:
        """True if the slot is to stop, as the run folder has it now."""
        return bool(self.signal) or "stop" in self.read()

    def leaving(self) -> bool:
        """True if the slot is to stop or to drain, as the run folder has it now."""
        return bool(self.signal) or bool(self.read() & {"stop", "drain"})

    @property
    def requeue(self) -> bool:
        """True if the slot is to come back: it was signalled, and no file asks it to leave."""
        # Asked anew: a slot that was to leave had itself requeued after a signal.
        return bool(self.signal) and not self.read() & {"stop", "drain"}

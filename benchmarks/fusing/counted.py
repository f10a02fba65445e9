"""A group that counts what its ranks give to it."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from hpcpod.pod.ranks.communicator import Communicator

_MEETINGS = 5


class Counted:
    """Passes all on to a real group, and counts bytes, exchanges and seconds of ``sum_``."""

    def __init__(self, group: Communicator, *, aligned: bool = False) -> None:
        """``aligned``: meet the other ranks before each exchange, and count that apart."""
        self._group, self._aligned = group, aligned
        self._here = torch.zeros(1)
        self.bytes = 0
        """Given to all-reduces by this rank: a ring moves 2 (L - 1) / L times that."""
        self.exchanges = 0
        self.seconds = 0.0
        """In them, waiting for ranks that come later included, unless ``aligned``."""
        self.waited = 0.0

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def size(self) -> int:
        return self._group.size

    @property
    def backend(self) -> str:
        return self._group.backend

    def sum_(self, vector: Tensor) -> None:
        began = time.perf_counter()
        if self._aligned:
            self.align()
            now = time.perf_counter()
            self.waited += now - began
            began = now
        self._group.sum_(vector)
        self.seconds += time.perf_counter() - began
        self.bytes += vector.numel() * vector.element_size()
        self.exchanges += 1

    def align(self) -> None:
        """Have all ranks go on at once.

        More than one exchange: whoever came first to the first sleeps, and wakes late.
        """
        for _ in range(_MEETINGS):
            self._group.sum_(self._here)

    def gather(self, message: str) -> list[str]:
        return self._group.gather(message)

    def close(self) -> None:
        self._group.close()

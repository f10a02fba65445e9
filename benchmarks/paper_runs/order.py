"""The order to a process of ``benchmarks/paper.py``, and the common part of its answer."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from arms.scoring import returns_of

MARK = "snapshots:"
"""Begins the line with the answer."""


@dataclass(frozen=True)
class Order:
    """A run of so many seconds, whose policy is kept at equal wall times."""

    way: str
    env: str
    """A gymnasium id."""
    seed: int
    seconds: float
    """From the start of its process to the last snapshot."""
    snapshots: int
    """How many, evenly, the last one at the end."""
    cores: int
    hidden: int
    """Units of each of two hidden layers, in every network."""
    episodes: int
    """In which each snapshot is scored, after the run."""
    folder: str
    """Empty, for whatever a library writes."""
    began: float
    """Unix time."""

    @property
    def elapsed(self) -> float:
        """Seconds since the process was started."""
        return time.time() - self.began

    def due(self, taken: int) -> bool:
        """True if it is time for the next snapshot."""
        return self.elapsed >= (taken + 1) * self.seconds / self.snapshots


@dataclass(frozen=True)
class Kept:
    """A snapshot."""

    seconds: float
    env_steps: int
    policy: Any


def main(play: Callable[[Order], Iterable[Kept]], load: Callable[[Any], Any]) -> None:
    """Play the order on standard input, then score each snapshot and print a line of them.

    Args:
        play: gives the snapshots.
        load: makes of what was kept a policy of batches of observations.
    """
    order, rows = Order(**json.load(sys.stdin)), []
    for kept in list(play(order)):
        found = returns_of(load(kept.policy), order.env, order.episodes)
        mean, deviation = statistics.fmean(found), statistics.stdev(found)
        rows.append([kept.seconds, kept.env_steps, mean, deviation])
    print(MARK + json.dumps(rows), flush=True)

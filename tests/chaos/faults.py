"""Faults of a storm: drawn with their times from a seed alone, so that it can be had again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A way in which something goes wrong."""

    weight: float
    seconds: tuple[float, float] = (0.0, 0.0)
    """For how long, where it passes."""
    mounted: bool = False
    """It is done to a whole filesystem, which must be one of its own."""
    views: bool = False
    """It is done to what one machine sees of it, or all do."""


KINDS: Mapping[str, Kind] = {
    # Processes
    "kill slot": Kind(3),
    "kill rank": Kind(4),
    "kill coordinator": Kind(2),
    "stop slot": Kind(3, (0.5, 8.0)),
    "stop rank": Kind(3, (0.5, 8.0)),
    "stop coordinator": Kind(3, (0.5, 8.0)),
    "stop merges": Kind(2, (5.0, 13.0)),
    # The cluster
    "kill slurmd": Kind(3, (0.5, 5.0)),
    "kill slurmctld": Kind(3, (0.5, 4.0)),
    "node down": Kind(1.5, (1.0, 6.0)),
    "node drained": Kind(2, (1.0, 6.0)),
    "preemption": Kind(2, (0.5, 2.0)),
    "preemption of all": Kind(0.5, (0.5, 1.0)),
    "requeue": Kind(1.5),
    "scancel slot": Kind(2),
    "scancel coordinator": Kind(1),
    "scancel all": Kind(0.4),
    "suspend slot": Kind(2, (0.5, 6.0)),
    # The disk
    "disk full": Kind(4, (0.5, 6.0), mounted=True),
    "disk read-only": Kind(4, (0.5, 6.0), mounted=True),
    "wrong times": Kind(6),
    "wrong clock": Kind(6),
    "lost replies": Kind(5, (2.0, 12.0), views=True),
    "disk hangs": Kind(3, (2.0, 60.0), views=True),
    # Damage
    "torn report": Kind(6),
    "torn old report": Kind(4),
    "torn claim": Kind(5),
    "torn resume": Kind(5),
    "torn blob": Kind(4),
    "blob gone": Kind(3),
    "torn generation": Kind(2),
    "torn hint": Kind(3),
    "torn status": Kind(4),
    "torn lease": Kind(3),
    "torn intent": Kind(2),
    # People
    "second coordinator": Kind(2, (2.0, 8.0)),
    "ticks": Kind(2),
    "looks": Kind(3),
    "drain": Kind(0.7, (1.0, 4.0)),
    "pause": Kind(0.7, (1.0, 4.0)),
    "scale": Kind(2, (1.0, 6.0)),
}  # fmt: skip

OVERSLEEP, OVERSLEPT_SECONDS = "stop coordinator beyond its lease", 100.0
"""Comes once, into a long run: it lasts for several storms."""


@dataclass(frozen=True)
class Fault:
    """One fault: its moment is a storm's, and seconds since that began."""

    number: int
    storm: int
    at: float
    kind: str
    pick: int
    """Decides which of those that can be hit is hit, and how."""
    seconds: float

    def record(self) -> dict[str, Any]:
        """As a line of the log has it; the inverse is ``Fault(**record)``."""
        return asdict(self)

    def choice(self, among: Sequence[Any]) -> Any:
        """One of those that can be hit; None if there are none."""
        return among[self.pick % len(among)] if among else None


def storms(
    seed: int,
    *,
    mounted: bool,
    views: bool = False,
    longest: float = 60.0,
    oversleep: bool = False,
) -> Iterator[list[Fault]]:
    """Storms of about ten faults without an end, each fault at its moment.

    Args:
        seed: decides everything.
        mounted: whether the run's filesystem is one of its own.
        views: whether each machine has its own view of it.
        longest: seconds that a drawn fault may last.
        oversleep: have a coordinator stopped for longer than its lease, once.
    """
    kinds = {
        name: kind
        for name, kind in KINDS.items()
        if (mounted or not kind.mounted) and (views or not kind.views)
    }
    weights = [kind.weight for kind in kinds.values()]
    number = itertools.count()
    for storm in itertools.count():
        draw = random.Random(f"{seed}-{storm}")
        size = draw.randint(7, 13)
        moments = sorted(round(draw.uniform(0.0, 7.0), 2) for _ in range(size))
        faults = []
        for at, name in zip(moments, draw.choices(list(kinds), weights, k=size), strict=True):
            low, high = kinds[name].seconds
            lasts = round(draw.uniform(min(low, longest), min(high, longest)), 2)
            faults.append(Fault(next(number), storm, at, name, draw.getrandbits(31), lasts))
        if oversleep and storm == random.Random(seed).randint(2, 9):
            faults.append(Fault(next(number), storm, 7.0, OVERSLEEP, 0, OVERSLEPT_SECONDS))
        yield faults

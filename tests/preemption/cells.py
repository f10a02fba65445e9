"""The ways in which a site preempts and a slot is made: all of them, and a selection by pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations, product
from typing import Any, Literal

from tests.support.slurm_cluster import Options

Mode = Literal["REQUEUE", "CANCEL"]


@dataclass(frozen=True)
class Cell:
    """One way."""

    mode: Mode
    """What the site does with a preempted job."""
    user_signal: bool
    """Whether the site sends the job's own signal (USR2) first; else SIGTERM alone."""
    grace: int
    """Seconds between the first signal and the end."""
    array: bool
    """Whether the slot is one of two elements of an array; else a job of its own."""
    ranks: int
    """Ranks of a pod; several of them lie on two nodes."""
    hears: bool = True
    """Whether the training notices a signal; else only SIGKILL ends it, in mid iteration."""

    @property
    def options(self) -> Options:
        """The cluster that it needs: a node for the coordinator, and some for each slot."""
        return Options(
            nodes=5, gpus=0, cpus=4, grace_seconds=self.grace, preempt_mode=self.mode,
            user_signal=self.user_signal,
        )  # fmt: skip

    def __str__(self) -> str:
        signal = "usr2" if self.user_signal else "term"
        kind = "array" if self.array else "single"
        words = (self.mode.lower(), signal, f"grace{self.grace}", kind, f"ranks{self.ranks}")
        return "-".join((*words, *(() if self.hears else ("deaf",))))


_MODES: tuple[Mode, ...] = ("REQUEUE", "CANCEL")

EVERY = [
    Cell(mode, user_signal, grace, array, ranks)
    for mode, user_signal, grace, array, ranks in product(
        _MODES, (True, False), (0, 5), (True, False), (1, 4)
    )
]

DEAF = [Cell(mode, False, 0, True, ranks, hears=False) for mode in _MODES for ranks in (1, 4)]
"""Where no signal arrives in time, so that the last checkpoint is all that is left."""


def pairwise(cells: Sequence[Cell]) -> list[Cell]:
    """A few cells among which every two values of two properties meet. The same ones each time."""
    missing = {pair for cell in cells for pair in _pairs(cell)}
    chosen: list[Cell] = []
    while missing:
        best = max(cells, key=lambda cell: len(missing.intersection(_pairs(cell))))
        missing.difference_update(_pairs(best))
        chosen.append(best)
    return chosen


def _pairs(cell: Cell) -> Iterator[Any]:
    yield from combinations(enumerate(astuple(cell)), 2)

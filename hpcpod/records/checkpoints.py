"""Names of a pod's whole state: the blobs that a checkpoint is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """Rows [start, stop) of a replay buffer: the last ones of an immutable blob."""

    start: int
    stop: int
    sha256: str
    cut: bool = False  # without it a lost rank's rows were joined to other episodes
    """The episodes in progress at its end went on nowhere: its last row counts as truncated,
    whatever the blob says."""


@dataclass(frozen=True)
class Part:
    """One rank's own part of a pod: rows, environments, random generators."""

    rank: int
    core: str
    """sha256 of its blob."""
    rows: int
    """Rows that its replay buffer has ever held."""
    segments: tuple[Segment, ...]
    """The live ones, oldest first."""

    def blobs(self) -> tuple[str, ...]:
        """The sha256 of every blob that it needs."""
        return (self.core, *(segment.sha256 for segment in self.segments))


@dataclass(frozen=True)
class Checkpoint:
    """A pod's whole state: a small core (weights, optimizer, RNG, counters) and replay segments."""

    core: str
    """sha256 of the core's blob."""
    env_steps: int
    """Environment steps of experience in it, its ancestors' included."""
    rows: int = 0
    """Rows that the replay buffer has ever held; 0 for agents that keep none."""
    segments: tuple[Segment, ...] = ()
    """The live rows of the replay buffer, oldest first; a child refers to its parent's."""
    rank: int = 0
    """The pod's rank that has these rows, and wrote the core."""
    others: tuple[Part, ...] = ()
    """The own parts of the pod's other ranks."""

    def blobs(self) -> tuple[str, ...]:
        """The sha256 of every blob that this checkpoint needs."""
        return tuple(sha256 for part in self.parts for sha256 in part.blobs())

    @property
    def parts(self) -> tuple[Part, ...]:
        """The own parts of all ranks."""
        return (Part(self.rank, self.core, self.rows, self.segments), *self.others)

    def part(self, rank: int) -> Part | None:
        """The own part of that rank; None if it has none."""
        return next((part for part in self.parts if part.rank == rank), None)

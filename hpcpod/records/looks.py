"""Second looks: a test that came close, and the further episodes that decide it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """A pod and a leader whose test came close, with the returns of their further episodes."""

    rival: str
    """The leader."""
    round: int
    """The round at which the two were compared; both play with its checkpoints."""
    returns: tuple[float, ...] = ()
    """Of the pod; empty until they are there."""
    rivals: tuple[float, ...] = ()
    """Of the leader, on the same seeds."""

    @property
    def done(self) -> bool:
        """True if both have played."""
        return bool(self.returns) and bool(self.rivals)

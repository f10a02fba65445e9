"""Origins: policies of other runs that pods have started from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """The policy of another run that a pod has started from; its blobs were copied at launch."""

    run: str
    """The other run's name."""
    path: str
    """Its folder at launch; it may be gone since."""
    pod: str
    round: int
    """The pod's round that ended in this policy."""
    core: str
    """sha256 of the checkpoint's core."""
    env_steps: int
    """Environment steps of experience in it; those of this run do not count them."""
    seed: int
    """The other run's: of its panels."""

    @property
    def words(self) -> str:
        """``p0003 of demo at round 12 (checkpoint 3f2a9c1b0d5e)``."""
        return f"{self.pod} of {self.run} at round {self.round} (checkpoint {self.core[:12]})"

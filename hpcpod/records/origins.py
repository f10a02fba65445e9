"""Origins: policies of other runs that pods have started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod.config.space import Scalar
from hpcpod.records.checkpoints import Checkpoint


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
    taught_steps: int = 0
    """Environment steps in which it has acted, and the pod learned from that; 0: the pod has its
    weights."""

    @property
    def words(self) -> str:
        """``p0003 of demo at round 12 (checkpoint 3f2a9c1b0d5e)``."""
        return f"{self.pod} of {self.run} at round {self.round} (checkpoint {self.core[:12]})"

    @property
    def begun(self) -> str:
        """The pod's beginning with it: ``goes on from p0003 of demo ...``."""
        if self.taught_steps:
            return f"imitated {self.words} in its first {self.taught_steps:,} environment steps"
        return f"goes on from {self.words}"


@dataclass(frozen=True)
class Teacher:
    """The policy of another run that acts in a pod's first environment steps, while the pod learns
    from what it does."""

    agent: str
    """Its agent's name."""
    hyperparameters: Mapping[str, Scalar]
    checkpoint: Checkpoint
    """Its core alone."""
    env_steps: int
    """The pod's experience until which it acts, in environment steps."""

"""The policy snapshot: the leader's policy at equal wall times, with its score."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.records.checkpoints import Checkpoint


@dataclass(frozen=True)
class PolicySnapshot:
    """The policy that led a run at one time, or at several in a row on one generation."""

    number: int
    """The first of its times: so many times ``snapshots.seconds`` after the first slot began."""
    times: int
    """Times in a row from there on: of a pause there are many, and the board was the same."""
    env_steps: int
    """Environment steps that the whole population had reported by then."""
    pod: str
    round: int
    """The round of the pod that ended in this policy."""
    checkpoint: Checkpoint
    """Its core alone: no replay buffer is kept for a policy."""
    returns: tuple[float, ...] = ()
    """On fresh seeds, the same ones for every snapshot of the run; empty while it has no score."""
    engine: str = ""
    """The simulator that scored it, and its version."""
    failure: str = ""
    """Empty, or why it could not be scored, in one sentence."""

    @property
    def settled(self) -> bool:
        """It has a score, or can't be given one."""
        return bool(self.returns or self.failure)

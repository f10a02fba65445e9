"""Orders: what a slot may claim, a birth to train or a checkpoint to score on fresh seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hpcpod.config.space import Scalar
from hpcpod.records.checkpoints import Checkpoint
from hpcpod.records.finals import Member
from hpcpod.records.origins import Origin, Teacher

Hyperparameters = Mapping[str, Scalar]
FreshPurpose = Literal["confirm", "final", "candidate", "report"]
"""The use of a score on fresh seeds. ``confirm``: an attempt at the target. Of a final evaluation
``final`` is the select set, ``candidate`` the confirm set, ``report`` the report set."""


def order_name(pod: str, round: int, attempt: int) -> str:
    """``Birth.id`` of an attempt to train a round of a pod."""
    return f"{pod}-{round:05d}-{attempt}"


@dataclass(frozen=True)
class Birth:
    """The generator's order: what a slot trains next, fully determined by board and seed."""

    pod: str
    round: int
    """The round to train, from 1: it ends at ``round * round.env_steps`` steps of experience."""
    attempt: int
    """Fencing: a report counts only if the board still holds this attempt."""
    algorithm: str
    hyperparameters: Hyperparameters
    seed: int
    checkpoint: Checkpoint | None = None
    """The start: the pod's own last one, or its parent's; None is from scratch."""
    inherited: bool = False
    """The checkpoint is the parent's: this is a copied child's first round."""
    origin: Origin | None = None
    """The parent, if it is of another run."""
    teacher: Teacher | None = None
    """The policy of another run that acts in its first steps, and that it learns from, if any."""
    shrink: bool = False
    """Shrink and perturb the weights before the first step; see ``agents.shrink_perturb``."""
    # Steps of a lineage were counted: a rate annealed to 0 froze a pod and all its children.
    begins: float | None = None
    """Share of the run's budget that is spent when the round begins, in [0, 1], for schedules;
    None: nothing limits the run. See ``tournament.budget``."""
    ends: float | None = None
    """The same share as expected when the round ends."""

    @property
    def id(self) -> str:
        """The name of its claim and of its report."""
        return order_name(self.pod, self.round, self.attempt)

    def parents_panel(self, seed: int) -> tuple[int, int]:
        """Seed and number of the panel that scored the parent's checkpoint, of a run's seed."""
        origin = self.origin
        return (seed, self.round - 1) if origin is None else (origin.seed, origin.round)


@dataclass(frozen=True)
class Rescore:
    """An order to score a checkpoint on seeds of which no evaluation before it knew."""

    purpose: Literal["confirm", "final", "candidate", "report", "snapshot", "look"]
    number: int
    """Confirm: of the set of fresh seeds, the k-th of the target's. Final: the batch's, from 0.
    Candidate: its place among them, after those of earlier finals. Snapshot: its own. Report: as
    ``set``. Look: the round."""
    pod: str
    attempt: int
    algorithm: str
    hyperparameters: Hyperparameters
    checkpoint: Checkpoint
    round: int
    """The round whose checkpoint it is."""
    level: float = 0.0
    """Confirm: the error level that this checkpoint's attempt spends; 0 is that of ``number``."""
    stake: float = 0.0
    """Confirm: what its fresh episodes stake, see ``tournament.confirmation``."""
    earlier: tuple[float, ...] = ()
    """Confirm: the returns of the attempt's earlier sets of fresh seeds."""
    set: int = 0
    """Final, candidate, report: the number of the set of seeds; see ``tournament.seed_sets``."""
    episodes: int = 0
    """0: ``stop.confirm_episodes``."""
    rule: str = ""
    """Candidate, report: the rule of an ensemble; empty of a single policy."""
    members: tuple[Member, ...] = ()
    """Candidate, report: of an ensemble, best first; empty of a single policy."""

    @property
    def id(self) -> str:
        """The name of its claim and of its report."""
        return f"{self.pod}-{self.purpose}{self.number}-{self.attempt}"


Order = Birth | Rescore

"""The start of a run from another run's best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hpcpod.config.limits import Limit, Limited


@dataclass(frozen=True)
class StartFrom(Limited):
    """The policy of another run that pods start from."""

    run: str
    """The other run's folder, or its name under ``runs/``."""
    pod: str | None = None
    """A pod of it, whose best policy is taken. Null: the winner, or the leader so far; of a run
    that delivers an ensemble, its best single policy."""
    share: Annotated[float, Limit(above=0, most=1)] = 0.5
    """Share of the first pods of each algorithm that inherit, rounded up: weights, optimizer,
    normaliser and replay. The first of them keeps the parent's hyperparameters, the others' are
    mutated. The rest begin afresh and challenge them: what was best on another budget, or in
    another environment, may be a dead end here. Algorithms of another family, or another network,
    begin afresh throughout."""

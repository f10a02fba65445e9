"""The start of a run from another run's best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hpcpod.config.limits import Limit, Limited, Natural


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
    another environment, may be a dead end here. Of algorithms of another family, or with another
    network, as many are taught, see ``distill``, or all begin afresh."""
    distill: Natural = 0
    """Environment steps in which the other run's policy acts for pods that can't inherit its
    weights, while they learn to act as it does (``agents/imitation.py``). They count as the pod's,
    and its replay begins with them. 0: such pods begin afresh."""

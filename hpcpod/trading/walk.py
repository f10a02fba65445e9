"""Walk-forward folds as one result: the holdouts of all, each played by its own fold's policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hpcpod.errors import UserError
from hpcpod.tournament.statistics import interval
from hpcpod.trading.metrics import stationary_bootstrap
from hpcpod.trading.verdict import Verdict


@dataclass(frozen=True)
class Walk:
    """The verdicts of folds, and their aggregate."""

    folds: Mapping[int, Verdict]
    """Verdicts by the fold's number, in their order."""
    days: int
    ahead: float
    """Mean daily log return of the policies less that of buy-and-hold over the days of all folds,
    in basis points."""
    low: float
    """The 95 % interval of it, by a stationary bootstrap of these days, in their order."""
    high: float
    fold_low: float
    """The 95 % interval (Student's) of the mean over folds, each of which counts once: it has the
    spread between trainings, too."""
    fold_high: float

    @property
    def edge(self) -> bool:
        """Both intervals are above 0."""
        return self.low > 0 and self.fold_low > 0

    @property
    def words(self) -> str:
        """The aggregate in a sentence."""
        ahead = sum(sum(each.gaps) > 0 for each in self.folds.values())
        said = "ahead of buy-and-hold by" if self.edge else "no edge: against buy-and-hold"
        return (
            f"{said} {self.ahead:+.2f} [{self.low:+.2f}, {self.high:+.2f}] bp a day over"
            f" {self.days} days, and ahead in {ahead} of {len(self.folds)} folds; with each fold as"
            f" one number [{self.fold_low:+.2f}, {self.fold_high:+.2f}]"
        )


def walk(folds: Mapping[int, Verdict]) -> Walk:
    """The aggregate of folds.

    Raises:
        UserError: there are fewer than two.
    """
    if len(folds) < 2:
        raise UserError("an interval over folds takes at least two of them")
    ordered = dict(sorted(folds.items()))
    days = np.concatenate([each.gaps for each in ordered.values()])
    means = [float(np.mean(each.gaps)) for each in ordered.values()]
    return Walk(ordered, len(days), *stationary_bootstrap(days), *interval(means))

"""Walk-forward folds as one result: the holdouts of all, each played by its own fold's policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hpcpod.errors import UserError
from hpcpod.tournament.statistics import interval
from hpcpod.trading.metrics import stationary_bootstrap
from hpcpod.trading.verdict import CASH, FOLD, RISK_OFF, RIVAL, Verdict, cells, compared, sharpe

if TYPE_CHECKING:
    from hpcpod.run.sweeps.design import Cell

HEADS = ("fold", "days", "policy", "buy-and-hold", "Sharpe", "ahead, bp a day", "overfitting")
"""Of a table of folds."""


@dataclass(frozen=True)
class Lead:
    """The daily log return of the policies less that of a baseline, in basis points."""

    ahead: float
    """Its mean over the days of all folds."""
    low: float
    """The 95 % interval of it, by a stationary bootstrap of these days, in their order."""
    high: float
    fold_low: float
    """The 95 % interval (Student's) of the mean over folds, each of which counts once: it has the
    spread between trainings, too."""
    fold_high: float

    @property
    def words(self) -> str:
        """The mean and the interval over days."""
        return f"{self.ahead:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True)
class Walk:
    """The verdicts of folds, and their aggregate."""

    folds: Mapping[int, Verdict]
    """Verdicts by the fold's number, in their order."""
    days: int
    hold: Lead
    """Against buy-and-hold."""
    cash: Lead | None
    """Against cash; None: not all folds were judged beside it, as by older versions."""
    risk_off: Lead | None
    """Against buy-and-hold with risk-off; None: as ``cash``, or the rules have none."""

    @property
    def edge(self) -> bool:
        """Ahead of buy-and-hold by both intervals, and of the other baselines by that over days:
        how far folds lie apart against cash is how far the market's stretches do, not the
        trainings. Without one of these in some of the folds there is no edge."""
        return all(ahead for ahead, _ in self._leads.values())

    @property
    def _leads(self) -> dict[str, tuple[bool, str]]:
        others = {CASH: self.cash}
        if any(each.over_risk_off for each in self.folds.values()):
            others[RISK_OFF] = self.risk_off
        unknown = (False, "unknown (not all folds were judged beside it)")
        return {
            RIVAL: (self.hold.low > 0 and self.hold.fold_low > 0, self.hold.words),
            **{name: (each.low > 0, each.words) if each else unknown
               for name, each in others.items()},
        }  # fmt: skip

    @property
    def words(self) -> str:
        """The aggregate in a sentence."""
        ahead = sum(sum(each.gaps) > 0 for each in self.folds.values())
        return (
            f"{compared(self._leads)}, over {self.days} days, and ahead of buy-and-hold in {ahead}"
            f" of {len(self.folds)} folds; with each fold as one number"
            f" [{self.hold.fold_low:+.2f}, {self.hold.fold_high:+.2f}]"
        )


def by_fold(sweep: Sequence[Cell]) -> dict[int, list[Cell]]:
    """A sweep's cells by their fold; several seeds of a fold are judged as one."""
    found: dict[int, list[Cell]] = {}
    for cell in sweep:
        found.setdefault(int(str(cell.levels[FOLD])), []).append(cell)
    return dict(sorted(found.items()))


def fold_cells(fold: int, verdict: Verdict) -> list[str]:
    """A fold's verdict as text, below ``HEADS``."""
    own, rival, trials = verdict.rows[0], verdict.row(RIVAL), verdict.trials
    chance = None if trials is None else trials.overfitting
    return [
        str(fold), f"{verdict.first} to {verdict.last}", f"{own.cumulative_return:+.1%}",
        f"{rival.cumulative_return:+.1%}", sharpe(own), cells(rival)[-1],
        "-" if chance is None else f"{chance:.2f}",
    ]  # fmt: skip


def walk(folds: Mapping[int, Verdict]) -> Walk:
    """The aggregate of folds.

    Raises:
        UserError: there are fewer than two.
    """
    if len(folds) < 2:
        raise UserError("an interval over folds takes at least two of them")
    ordered = dict(sorted(folds.items()))
    own = ordered.values()
    cash, risk_off = (
        _lead(gaps) if all(gaps) else None
        for gaps in ([each.over_cash for each in own], [each.over_risk_off for each in own])
    )
    gaps = [each.gaps for each in own]
    return Walk(ordered, sum(map(len, gaps)), hold=_lead(gaps), cash=cash, risk_off=risk_off)


def _lead(gaps: Sequence[Sequence[float]]) -> Lead:
    means = [float(np.mean(each)) for each in gaps]
    return Lead(*stationary_bootstrap(np.concatenate(gaps)), *interval(means))

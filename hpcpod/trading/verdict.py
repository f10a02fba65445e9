"""Outcomes of a holdout as data, which a report reads where there is no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcpod.errors import StorageError
from hpcpod.records.codec import decode
from hpcpod.storage.disk import Disk
from hpcpod.trading.ledger import Opening, distinct

BACKENDS = ("trading", "hpcpod.trading.env:TradingVecEnv")
"""Backends of runs that have a holdout."""
UNIT = "A return is the growth of the account's logarithm in an episode, in percent."
"""Of the scores of such runs."""
RIVAL = "hold"
CASH = "cash"
RISK_OFF = "hold, risk-off"
RIVALS = {RIVAL: "buy-and-hold", CASH: "cash", RISK_OFF: "buy-and-hold with risk-off"}
"""The baselines by which is judged whether a policy has an edge, in words. Ahead of buy-and-hold
alone is cash, too, where prices fall, and ahead of cash alone is buy-and-hold where they rise. The
third is there where the rules have a ``risk_off``, by which alone a policy may be ahead of both."""


@dataclass(frozen=True)
class Row:
    """A strategy on the holdout, over all of its markets."""

    name: str
    cumulative_return: float
    """Of equal capital in each market: markets lie beside one another, not one after another."""
    annual_return: float
    annual_volatility: float
    max_drawdown: float
    sharpe: float
    sharpe_error: float
    turnover: float
    exposure: float
    deepest: float
    """The deepest fall between the closes of two bars."""
    ahead: float | None = None
    """Mean daily log return of the policy less this one's, in basis points; None: it is itself."""
    low: float | None = None
    """The 95 % interval of it, by a stationary bootstrap of the same days."""
    high: float | None = None
    annual_of_paper: float | None = None
    """As ``annual_return``, with the start counted as a day, as the Podracer paper's table has it;
    None: an older version has judged."""


FOLD = "env.kwargs.fold"
"""The one factor of a sweep over folds."""
HEADS = ("strategy", "return", "a year", "volatility", "deepest fall", "Sharpe", "turnover a day",
         "in stocks", "policy ahead, bp a day")  # fmt: skip
"""Of a table of rows."""


def cells(row: Row) -> list[str]:
    """A row as text, below ``HEADS``."""
    ahead = "" if row.ahead is None else f"{row.ahead:+.2f} [{row.low:+.2f}, {row.high:+.2f}]"
    return [
        row.name, f"{row.cumulative_return:+.1%}", f"{row.annual_return:+.1%}",
        f"{row.annual_volatility:.1%}", f"{row.deepest:.1%}", sharpe(row), f"{row.turnover:.1%}",
        f"{row.exposure:.0%}", ahead,
    ]  # fmt: skip


def sharpe(row: Row) -> str:
    """The Sharpe ratio and its standard error; a dash of an account that never moved."""
    return f"{row.sharpe:.2f} ± {row.sharpe_error:.2f}" if row.annual_volatility else "-"


@dataclass(frozen=True)
class Trials:
    """All policies of a run on the whole selection part, by which one of them was chosen."""

    policies: int
    days: int
    overfitting: float | None
    """Probability of backtest overfitting (``metrics.overfitting``): how often the policy that is
    best on one half of the days is below the median of all on the other. About a half where no
    policy is better than another; None: too few policies or days."""
    best: str
    """The policy of the highest mean growth."""
    ahead: float
    """Its mean daily log return less that of ``RIVAL``, in basis points. The days chose it, so this
    flatters it."""
    low: float
    """The 95 % interval of it, by a stationary bootstrap of the same days."""
    high: float
    left: int = 0
    """Policies of the run that were not played: there are too many."""

    @property
    def words(self) -> str:
        """The result in a sentence or two."""
        cut = f" ({self.left} more were not played)" if self.left else ""
        one = self.policies == 1
        among = "the one policy" if one else f"the best of {self.policies} policies"
        said = (
            f"On the {self.days} days of the selection part {among} played{cut}, {self.best}, has"
            f" {self.ahead:+.2f} [{self.low:+.2f}, {self.high:+.2f}] bp a day against buy-and-hold"
        )
        if one:
            return f"{said}."
        said += "; these days chose it"
        if self.overfitting is None:
            return f"{said}. They are too few for a probability of backtest overfitting."
        return (
            f"{said}. Probability of backtest overfitting among them: {self.overfitting:.2f}; it is"
            " 0.5 on average where none is better than another."
        )


def compared(leads: Mapping[str, tuple[bool, str]]) -> str:
    """The intervals by which is judged, in words.

    Args:
        leads: of each baseline of ``RIVALS`` that was played, true if the policy is ahead of it,
            and the mean with its interval.
    """
    over_hold, hold = leads[RIVAL]
    others = [(RIVALS[name], *lead) for name, lead in leads.items() if name != RIVAL]
    if all(ahead for ahead, _ in leads.values()):
        more = "".join(f", and of {name} by {lead}" for name, _, lead in others)
        return f"ahead of {RIVALS[RIVAL]} by {hold} bp a day{more}"
    if over_hold:
        more = "".join(f", and not of {name}: {lead}" for name, ahead, lead in others if not ahead)
        return f"no edge: ahead of {RIVALS[RIVAL]} by {hold} bp a day{more}"
    more = "".join(f", against {name} {lead}" for name, _, lead in others)
    return f"no edge: against {RIVALS[RIVAL]} {hold} bp a day{more}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a holdout."""

    rows: tuple[Row, ...]
    """The policy first, then the ensemble if there is one, then the baselines."""
    edge: bool
    """The policy is ahead of each row of ``RIVALS``, by the whole of its 95 % interval."""
    deflated: float
    """Probability that its true Sharpe ratio is above that of the best of all that were tried on
    this holdout, had none of them skill."""
    trials: Trials | None
    """The run's policies on the selection part; None: they were not played."""
    openings: tuple[Opening, ...]
    """Of this holdout, each policy that was shown on it, this one last; without a ledger none."""
    first: str
    """The first and the last date that were judged."""
    last: str
    gaps: tuple[float, ...] = ()
    """Daily log returns of the policy less those of ``RIVAL``, in basis points."""
    over_cash: tuple[float, ...] = ()
    """The same, less those of ``CASH``."""
    accounts: str = ""
    """The name of the ensemble's row: the best pod of each algorithm; empty: there is none."""
    over_risk_off: tuple[float, ...] = ()
    """As ``gaps``, less those of ``RISK_OFF``; empty: the rules have none."""

    def row(self, name: str) -> Row:
        """The row of another than the policy."""
        return next(row for row in self.rows[1:] if row.name == name)

    @property
    def words(self) -> str:
        """The verdict in a sentence or two."""
        own, rival = self.rows[0], self.row(RIVAL)
        leads = {
            row.name: (row.low > 0, cells(row)[-1])
            for row in self.rows if row.name in RIVALS and row.low is not None
        }  # fmt: skip
        said = compared(leads)
        said += (
            f"; buy-and-hold made {rival.cumulative_return:+.1%}, the policy"
            f" {own.cumulative_return:+.1%} with {own.exposure:.0%} in stocks"
        )
        if self.accounts:
            made = self.row(self.accounts).cumulative_return
            said += f", and the ensemble of the best pod of each algorithm {made:+.1%}"
        if self.openings and all(
            name.startswith("synthetic market,") for name in self.openings[-1].sources
        ):
            said += ". The market is a synthetic one, of which no real one follows"
        times, shown = self.times, len(distinct(self.openings))
        if times > 1:
            said += (
                f". This holdout was opened {times} times: its numbers are no longer those of"
                " unseen data"
            )
        if shown > 1:
            said += f". It has shown {shown} policies: deflated Sharpe {self.deflated:.2f}"
        return said

    def of_paper(self, kwargs: Mapping[str, object]) -> str:
        """The Podracer paper's five metrics of the policy and of buy-and-hold; empty: the rules in
        ``env.kwargs`` are others, or an older version has judged."""
        told = [
            f"{name} {row.cumulative_return:+.3%}, {row.annual_of_paper:+.3%},"
            f" {row.annual_volatility:.3%}, {row.max_drawdown:.3%} and {sharpe(row)}"
            for name, row in ((self.rows[0].name, self.rows[0]), (RIVALS[RIVAL], self.row(RIVAL)))
            if row.annual_of_paper is not None
        ]
        if kwargs.get("preset") != "paper" or not told:
            return ""
        heads = "cumulative return, annual return, annual volatility, max drawdown and Sharpe ratio"
        said = f"The paper's {heads}: {'; '.join(told)}."
        count = len(self.openings[-1].sources) if self.openings else 1
        if count == 1:
            return said
        return (
            f"{said} The paper has one market: of these {count} the returns are of equal capital in"
            " each, the drawdown is the deepest, and the others are of the days of all in a row."
        )

    @property
    def times(self) -> int:
        """The count of openings, without the policies that were only shown beside."""
        return sum(not each.beside for each in self.openings)


def verdicts(ledger: Path, run: str) -> list[Verdict]:
    """The verdicts on a run that can be read, the last one last.

    Args:
        ledger: folder in which openings are counted.
        run: the run's name.
    """
    found = []
    for path in ledger.glob("*.verdict"):
        try:
            each = decode(Verdict, json.loads(Disk().read(path) or b""))
        except (StorageError, ValueError, TypeError, RecursionError):
            continue  # the line of the opening counts, whatever has become of this
        if each.openings and each.openings[-1].run == run:
            found.append(each)
    return sorted(found, key=lambda each: each.openings[-1].time)

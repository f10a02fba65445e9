"""``MarketPanel``: bars of stocks on one calendar, none of them above a ceiling."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcpod.errors import UserError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FIELDS = ("open", "high", "low", "close", "volume")


class CeilingPassed(UserError):
    """Rows were asked for that lie above the panel's date ceiling."""


@dataclass(frozen=True)
class SourceCard:
    """The origin of a panel's bars."""

    source: str
    """Of whom they are, with the version: ``synthetic, seed 7``."""
    licence: str
    """Under which they may be used; ``unknown`` is an answer."""
    survivorship: str
    """A sentence on the names that it lacks because they did not last."""
    sha256: str = ""
    """Of the file that they were read from, or of the bars."""
    currency: str = "USD"
    adjusted: str = "unknown"
    """``yes`` if prices are adjusted for splits and dividends; ``unknown`` is an answer."""


@dataclass(frozen=True)
class MarketPanel:
    """Bars [T, S]: T times on one calendar, S stocks.

    A panel with a ceiling *has* no row on or above that date: they are cut off when it is set, so
    that whoever is given the panel can't read them, and asking for them is an error. The arrays
    that it is given become read-only.
    """

    tickers: tuple[str, ...]
    """Names of the stocks, [S]."""
    times: npt.NDArray[np.datetime64]
    """The end of each bar, UTC, datetime64[s], rising, [T]."""
    sessions: npt.NDArray[np.int64]
    """The trading day of each bar, counted from 0, [T]."""
    dates: npt.NDArray[np.datetime64]
    """The date of each session in the exchange's time zone, datetime64[D]."""
    open: Floats
    """Prices, [T, S]; NaN where a stock has no bar."""
    high: Floats
    low: Floats
    close: Floats
    volume: Floats
    """Shares traded in the bar, [T, S]."""
    member: Flags
    """True where a stock is in the universe, as was known then, [T, S]."""
    card: SourceCard
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """Numbers of another kind that were known at the end of each bar, [T, S], by name."""
    ceiling: np.datetime64 | None = None
    """The first date that is closed to who holds the panel."""

    def __post_init__(self) -> None:
        named = ("times", "sessions", "dates", *FIELDS, "member")
        for array in (*(getattr(self, name) for name in named), *self.extra.values()):
            array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, int]:
        """Bars and stocks."""
        return len(self.times), len(self.tickers)

    @cached_property
    def traded(self) -> Flags:
        """True where a stock's bar has prices and volume, [T, S]."""
        return np.asarray(np.isfinite(self.open) & np.isfinite(self.close) & (self.volume > 0))

    @property
    def tradable(self) -> Flags:
        """True where a stock can be bought: it is a member of the universe, and was traded."""
        return np.asarray(self.member & self.traded)

    @cached_property
    def marks(self) -> Floats:
        """The last close that is known at each bar, [T, S]; NaN before a stock's first."""
        finite = np.isfinite(self.close)
        if finite.all():
            return self.close
        marks, bars = np.empty_like(self.close), np.arange(len(self.times))
        for stock in range(self.shape[1]):
            last = np.maximum.accumulate(np.where(finite[:, stock], bars, -1))
            found = self.close[np.maximum(last, 0), stock]
            marks[:, stock] = np.where(last < 0, np.nan, found)
        marks.flags.writeable = False
        return marks

    @cached_property
    def is_last(self) -> Flags:
        """True at the last bar of each session, half-days included, [T]."""
        return np.append(self.sessions[1:] != self.sessions[:-1], True)

    def below(self, date: str | np.datetime64) -> MarketPanel:
        """The panel with a ceiling: without the rows of that date and later ones.

        Raises:
            CeilingPassed: its own ceiling is lower.
            UserError: nothing is left.
        """
        day = day_of(date)
        self._check(day, "a ceiling of")
        left = self._rows(np.flatnonzero(self.dates[self.sessions] < day), f"the days before {day}")
        return replace(left, ceiling=day)

    def between(self, start: str | np.datetime64, end: str | np.datetime64) -> MarketPanel:
        """Sessions from ``start`` until before ``end``.

        Raises:
            CeilingPassed: the end lies above the ceiling.
            UserError: there is no session between them.
        """
        first, past = day_of(start), day_of(end)
        self._check(past, "rows until")
        days = self.dates[self.sessions]
        return self._rows(np.flatnonzero((days >= first) & (days < past)), f"{first} to {past}")

    def first(self, bars: int) -> MarketPanel:
        """The panel without what comes after its first ``bars`` bars.

        Raises:
            UserError: that is none, or more than there are.
        """
        if bars > len(self.times):
            raise UserError(f"{self.card.source} has {len(self.times)} bars, not {bars}")
        return self._rows(np.arange(bars), f"its first {bars} bars")

    def of(self, tickers: Sequence[str]) -> MarketPanel:
        """The panel of some of its stocks, in that order.

        Raises:
            UserError: it lacks one, or one is named twice.
        """
        if isinstance(tickers, str) or not isinstance(tickers, Sequence):
            raise UserError(f"expected a list of stocks such as [AAPL, KO], got {tickers!r}")
        names = tuple(map(str, tickers))  # those of some exchanges are numbers to YAML
        lacking = sorted(set(names) - set(self.tickers))
        if lacking:
            raise UserError(f"{self.card.source} has no {lacking[0]}")
        if not names or len(set(names)) < len(names):
            raise UserError("name each stock once, and at least one")
        columns = np.array([self.tickers.index(name) for name in names])
        return replace(self, tickers=names, **self._taken(np.s_[:, columns]))

    def blind(self, seed: int) -> MarketPanel:
        """The panel under other names: the calendar moved by whole weeks, the stocks shuffled.

        A person or a model that has read the news can't tell which days and which firms they are.
        """
        draw = np.random.default_rng(seed)
        order = draw.permutation(len(self.tickers))
        moved = np.timedelta64(7 * int(draw.integers(520, 2600)), "D")
        names = tuple(f"S{i:03d}" for i in range(len(order)))
        card = replace(self.card, source=f"{self.card.source}, blind")
        return replace(
            self, tickers=names, times=self.times - moved, dates=self.dates - moved, card=card,
            ceiling=None if self.ceiling is None else self.ceiling - moved,
            **self._taken(np.s_[:, order]),
        )  # fmt: skip

    def digest(self) -> str:
        """SHA-256 of everything that is traded on: names, times, bars, universe."""
        hashed = hashlib.sha256("\0".join(self.tickers).encode())
        arrays = {name: getattr(self, name) for name in ("times", "sessions", *FIELDS, "member")}
        for name, array in sorted({**arrays, **self.extra}.items()):
            hashed.update(name.encode())
            # tobytes would copy 390 MB for each field of 100 stocks and five years of minutes
            hashed.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return hashed.hexdigest()

    def _check(self, day: np.datetime64, wanted: str) -> None:
        if self.ceiling is not None and day > self.ceiling:
            raise CeilingPassed(
                f"{wanted} {day} were asked for, but this panel is closed from {self.ceiling} on"
            )

    def _rows(self, rows: npt.NDArray[np.int64], words: str) -> MarketPanel:
        if not len(rows):
            raise UserError(
                f"{self.card.source} has no session in {words}: it goes from {self.dates[0]} to"
                f" {self.dates[-1]}"
            )
        kept, sessions = np.unique(self.sessions[rows], return_inverse=True)
        return replace(
            self, times=self.times[rows], sessions=sessions, dates=self.dates[kept],
            **self._taken(rows),
        )  # fmt: skip

    def _taken(self, what: Any) -> dict[str, Any]:
        """All bars, as they are indexed by an array: copies, so that no base holds the others."""
        taken = {name: getattr(self, name)[what] for name in (*FIELDS, "member")}
        return {**taken, "extra": {name: each[what] for name, each in self.extra.items()}}


def is_whole(value: object, least: int) -> bool:
    """True for a whole number from ``least`` on; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def day_of(date: str | np.datetime64) -> np.datetime64:
    """A date as a day.

    Raises:
        UserError: it is none.
    """
    try:
        day: np.datetime64 = np.datetime64(str(date), "D")
    except (ValueError, TypeError) as error:
        raise UserError(f"expected a date such as 2019-05-13, got {date!r}") from error
    if np.isnat(day):
        raise UserError(f"expected a date such as 2019-05-13, got {date!r}")
    return day

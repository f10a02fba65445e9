"""All that is odd about the rows of a file of bars, each with its row: nothing is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hpcpod.trading.exchanges import exchange, outside, session_dates
from hpcpod.trading.features import FEATURES
from hpcpod.trading.panel import FIELDS

Kind = Literal["error", "warning"]
ROW = "row of the file"
"""The column with the rows of closes that stood side by side, counted from 0."""
SPLITS = (1.5, 2, 3, 4, 5, 7, 8, 10, 15, 20)
PRICES = (1e-12, 1e12)
"""The least and the greatest price; what is beyond has lost its unit."""
NAMED = 3
"""Findings of a kind that are each named with their row; of gaps the others are counted."""
NEAR = 0.03
"""A ratio of two closes this near to that of a split looks like one."""


@dataclass(frozen=True)
class Finding:
    """Something odd about a file."""

    kind: Kind
    """``error``: the file is refused."""
    row: int
    """Of the file, counted from 1 below its header; 0: of the whole file."""
    words: str
    """The sentence that says what."""

    def __str__(self) -> str:
        return f"row {self.row}: {self.words}" if self.row else self.words


def findings(table: Any, calendar: str | None = "XNYS") -> Iterator[Finding]:
    """All that is odd about the rows of ``frame_of``, errors first."""
    row = (table[ROW].to_numpy() if ROW in table else np.arange(len(table))) + 1
    if not len(table):
        yield Finding("error", 0, "it has no bars: the universe is empty")
        return
    yield from _bad_numbers(table, row)
    yield from _bad_order(table, row)
    yield from _currencies(table, row)
    yield from _off_calendar(table, row, calendar)
    if table["time"].notna().all():
        yield from _gaps(table, row)
        yield from _pauses(table, row)
    yield from _suspects(table, row)
    yield from _stand_ins(table)
    yield from _others(table, row)


def _others(table: Any, row: Any) -> Iterator[Finding]:
    """Columns that are not read, and numbers of those that are which are not known."""
    for name in sorted(set(table.columns) - {*FIELDS, "time", "ticker", "currency", ROW}):
        if name in FEATURES:
            words = f"column {name} is not read: the feature of that name is made from the bars"
            yield Finding("warning", 0, f"{words}; rename it to use it")
        elif table[name].dtype.kind in "fiu":
            odd = np.flatnonzero(~np.isfinite(table[name].to_numpy(float)))
            if len(odd):
                words = f"{name} of {_namer(table)(odd[0])} is not known"
                more = f", nor {len(odd) - 1} more" if len(odd) > 1 else ""
                yield Finding("warning", int(row[odd[0]]), words + more)


def _stand_ins(table: Any) -> Iterator[Finding]:
    """Numbers that a file of a bar in each row lacks, and those that are taken for them."""
    if ROW in table:  # closes side by side are meant so
        return
    alike = [name for name in FIELDS[:3] if table[name].equals(table["close"])]
    if alike:
        words = f"{', '.join(alike)}: no numbers of their own, the close is taken for each"
        more = "; an order that fill: open fills has the next bar's close" * ("open" in alike)
        yield Finding("warning", 0, words + more)
    if np.isinf(table["volume"]).all():
        words = "volume: no numbers, it is taken for unlimited, and volume_z means nothing"
        yield Finding("warning", 0, words)


def _currencies(table: Any, row: Any) -> Iterator[Finding]:
    if "currency" not in table:
        return
    missing = table["currency"].isna().to_numpy()
    if missing.any():
        yield Finding("error", int(row[missing][0]), "it has no currency, and the file a column")
    names = sorted(map(str, table["currency"].dropna().unique()))
    if len(names) > 1:
        odd = ~missing & (table["currency"] != table["currency"].dropna().iloc[0]).to_numpy()
        words = f"prices are in several currencies: {', '.join(names)}"
        yield Finding("error", int(row[odd][0]), words)


def _bad_numbers(table: Any, row: Any) -> Iterator[Finding]:
    named = _namer(table)
    for name in ("time", "ticker"):
        if table[name].isna().any():
            yield Finding("error", int(row[table[name].isna()][0]), f"it has no {name}")
            return
    blank = (table["ticker"] != table["ticker"].str.strip()).to_numpy()
    if blank.any():
        at = int(blank.argmax())
        words = f"ticker {table['ticker'].iloc[at]!r} has a blank before or after it"
        yield Finding("error", int(row[at]), words)
    for name in FIELDS[:4]:
        if name != "close" and table[name].equals(table["close"]):
            continue  # of a file with closes alone
        price, missing = table[name].to_numpy(float), table[name].isna().to_numpy()
        bad = (price < PRICES[0]) | (price > PRICES[1])
        for at in np.flatnonzero(bad)[:NAMED]:
            whole = not 0 < price[at] < np.inf
            span = "above 0 and finite" if whole else f"from {PRICES[0]:g} to {PRICES[1]:g}"
            words = f"{name} of {named(at)} is {price[at]:g}: prices are {span}"
            yield Finding("error", int(row[at]), words)
        for at in np.flatnonzero(missing)[:NAMED]:
            yield Finding("error", int(row[at]), f"{name} of {named(at)} is missing (NaN)")
    high, low = table["high"].to_numpy(float), table["low"].to_numpy(float)
    inner = table[["open", "close"]].to_numpy(float)
    slack = 1e-6 * np.abs(high)
    with np.errstate(invalid="ignore"):  # of infinite prices, which are told above
        outside = (inner.max(1) > high + slack) | (inner.min(1) < low - slack)
    for at in np.flatnonzero(outside)[:NAMED]:
        yield Finding(
            "error", int(row[at]), f"open or close of {named(at)} is outside high and low"
        )
    volume = table["volume"].to_numpy(float)
    endless = np.isinf(volume) & ~np.isinf(volume).all()  # all: a file that has no volume
    for at in np.flatnonzero(~(volume >= 0) | endless)[:NAMED]:
        words = f"volume of {named(at)} is {volume[at]:g}: it is a finite number from 0"
        yield Finding("error", int(row[at]), words)


def _bad_order(table: Any, row: Any) -> Iterator[Finding]:
    named = _namer(table)
    twice = table.duplicated(["time", "ticker"]).to_numpy()
    for at in np.flatnonzero(twice)[:NAMED]:
        yield Finding("error", int(row[at]), f"{named(at)} is there twice")
    seconds = table[["time", "ticker"]].assign(time=table["time"].dt.as_unit("s"))
    for at in np.flatnonzero(seconds.duplicated().to_numpy() & ~twice)[:NAMED]:
        words = f"{named(at)} is in the same second as another bar, and times are whole seconds"
        yield Finding("error", int(row[at]), words)
    back = (table.groupby("ticker", observed=True)["time"].diff().dt.total_seconds() < 0).to_numpy()
    for at in np.flatnonzero(back)[:NAMED]:
        yield Finding("error", int(row[at]), f"{named(at)} is older than the row before it")


def _off_calendar(table: Any, row: Any, calendar: str | None) -> Iterator[Finding]:
    if calendar is None or table["time"].isna().any():
        return
    days = session_dates(table["time"], calendar)
    sessions = exchange(calendar, days.min(), days.max()).sessions.to_numpy("datetime64[D]")
    for at in np.flatnonzero(~np.isin(days, sessions))[:NAMED]:
        words = f"{days[at]} is no session of {calendar} ({_namer(table)(at)})"
        yield Finding("error", int(row[at]), words)
    late = np.flatnonzero(outside(table["time"], calendar))
    if len(late):
        words = f"{_namer(table)(late[0])} ends outside of the hours of {calendar}, and"
        more = f"{words} {len(late) - 1} more: is the time zone another one?"
        yield Finding("warning", int(row[late[0]]), more)
    lacking = sessions[(sessions > days.min()) & (sessions < days.max())]
    lacking = lacking[~np.isin(lacking, days)]
    for day in lacking[:NAMED]:
        at = int((days > day).argmax())
        words = f"{day}, a session of {calendar}, is missing before {_namer(table)(at)}"
        yield Finding("warning", int(row[at]), words)
    if len(lacking) > NAMED:
        words = f"{len(lacking) - NAMED} more sessions of {calendar} are missing"
        yield Finding("warning", 0, f"{words}, the last of them {lacking[-1]}")


def _gaps(table: Any, row: Any) -> Iterator[Finding]:
    """Bars that a stock lacks between two of its own, and others have."""
    number = table["time"].factorize(sort=True)[0]
    left = table.assign(number=number).groupby("ticker", observed=True)["number"].diff() - 1
    found = np.flatnonzero(left.to_numpy() > 0)
    for at in found[:NAMED]:
        lost = int(left.iloc[at])
        words = "a bar is missing" if lost == 1 else f"{lost} bars are missing"
        yield Finding("warning", int(row[at]), f"{_namer(table)(at)} comes after a gap: {words}")
    if len(found) > NAMED:
        stocks = table["ticker"].iloc[found].nunique()
        yield Finding("warning", 0, f"gaps in all: {len(found)}; stocks that have some: {stocks}")


def _pauses(table: Any, row: Any) -> Iterator[Finding]:
    """Bars that all stocks lack between two of a day, at times of day that most days have."""
    number, times = table["time"].factorize(sort=True)
    # clocks that jump at midnight: a day of Brazil's summer began at one
    midnight = (
        times.tz_localize(None)
        .normalize()
        .tz_localize(times.tz, nonexistent="shift_forward", ambiguous=True)
    )
    day, clock = midnight.factorize()[0], (times - midnight).factorize(sort=True)[0]
    begins = np.flatnonzero(np.diff(day, prepend=-1))
    ends = np.append(begins[1:], len(day)) - 1
    usual = np.flatnonzero(np.bincount(clock) > len(begins) / 2)
    key = day * len(times) + clock  # rises with time
    every = np.arange(len(begins))[:, None] * len(times) + usual
    inside = (every > key[begins][:, None]) & (every < key[ends][:, None])
    behind, lost = np.unique(
        np.searchsorted(key, np.setdiff1d(every[inside], key)), return_counts=True
    )
    for each, count in zip(behind[:NAMED], lost, strict=False):
        at = int((number == each).argmax())
        words = "a bar is missing" if count == 1 else f"{count} bars are missing"
        yield Finding(
            "warning", int(row[at]), f"{_namer(table)(at)} comes after a gap of all stocks: {words}"
        )
    if len(behind) > NAMED:
        yield Finding("warning", 0, f"gaps of all stocks: {len(behind)}")


def _suspects(table: Any, row: Any) -> Iterator[Finding]:
    named = _namer(table)
    volume = table["volume"].to_numpy(float)
    dead = np.flatnonzero(volume == 0)
    if len(dead):
        words = f"{named(dead[0])} has no volume, and {len(dead) - 1} more: they can't be traded"
        yield Finding("warning", int(row[dead[0]]), words)
    ratio = (
        table.groupby("ticker", observed=True)["close"].pct_change(fill_method=None).to_numpy(float)
        + 1
    )
    least = SPLITS[0] * (1 - NEAR)
    for at in np.flatnonzero((ratio > least) | ((ratio > 0) & (ratio < 1 / least))):
        factor = max(ratio[at], 1 / ratio[at])
        if any(abs(factor / split - 1) < NEAR for split in SPLITS):
            words = f"{named(at)} moves by a factor of {ratio[at]:.3f}: is it an unadjusted split?"
            yield Finding("warning", int(row[at]), words)
    times = table.groupby("ticker", observed=True)["time"]
    thin = times.count()[times.count() < 0.95 * table["time"].nunique()]
    if len(thin):
        fewest = thin.idxmin()
        words = (
            f"stocks that have less than 95 % of the bars: {len(thin)}; {fewest} has"
            f" {int(thin.min())} of {table['time'].nunique()}, from {times.min()[fewest]} to"
            f" {times.max()[fewest]}"
        )
        yield Finding("warning", 0, words)


def _namer(table: Any) -> Any:
    return lambda at: f"{table['ticker'].iloc[at]} at {table['time'].iloc[at]}"

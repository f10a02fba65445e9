"""Bars of a user's own, from parquet or CSV: checked first, never repaired.

A file has a row for each bar of a stock: ``time`` (or ``date``), ``ticker``, ``open``, ``high``,
``low``, ``close``, ``volume``, and further numbers that were known at the bar's end; or a column of
closes for each stock, beside ``date``. Times of minute bars are the *ends* of bars, and have a time
zone or an offset, whichever: their sessions are those of the exchange.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hpcpod.errors import UserError
from hpcpod.trading.exchanges import exchange, outside, session_dates, times_of
from hpcpod.trading.panel import FIELDS, MarketPanel, SourceCard, day_of

Kind = Literal["error", "warning"]
NAMES: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "datetime", "ts", "date"),
    "ticker": ("ticker", "symbol", "tic", "stock"),
}
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>")
"""Words of CSV files for a number that is not known."""
SPLITS = (2, 3, 4, 5, 7, 8, 10, 15, 20)
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


def read_bars(
    path: str | Path, *, calendar: str | None = "XNYS", timezone: str | None = None,
    licence: str = "unknown", below: str | None = None,
) -> MarketPanel:  # fmt: skip
    """The panel in a file.

    Args:
        path: ends in ``.parquet``, ``.csv`` or ``.csv.gz``.
        calendar: of exchange_calendars, whose sessions they are; None: the days of the file are the
            sessions.
        timezone: of times that name none; without a calendar also that in which a day is counted.
        licence: under which the bars may be used, for the card.
        below: the panel's ceiling.

    Raises:
        UserError: it can't be read, or has an error; the sentence names the first row.
    """
    table = frame_of(path, timezone, calendar)
    for finding in findings(table, calendar):
        if finding.kind == "error":
            raise UserError(f"{path}: {finding}")
    panel = _panel(table, Path(path), licence, calendar)
    return panel if below is None else panel.below(below)


def frame_of(path: str | Path, timezone: str | None = None, calendar: str | None = "XNYS") -> Any:
    """A file's rows as they are, with columns ``time``, ``ticker`` and the fields of bars; times
    with a zone are in that of the calendar.

    Raises:
        UserError: it can't be read, or lacks a column.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise UserError("reading bars needs pandas: pip install 'hpcpod[trading]'") from error
    file = Path(path)
    if not file.is_file():
        raise UserError(f"there is no file {path}")
    try:
        parquet = file.suffix == ".parquet"
        table = pd.read_parquet(file) if parquet else _csv(file)
    except Exception as error:
        raise UserError(f"{path} can't be read: {str(error).splitlines()[0]}") from error
    table.columns = [str(name) for name in table.columns]
    lower = {name.lower(): name for name in table.columns}
    twice = table.columns.str.lower().duplicated()
    if twice.any():
        raise UserError(f"{path}: two columns are called {table.columns[twice][0]}: leave one out")
    for name, aliases in NAMES.items():
        found = next((lower[each] for each in aliases if each in lower), None)
        if found is not None:
            table = table.rename(columns={found: name})
    if "time" not in table:
        raise UserError(f"{path} has no column of times (one of {', '.join(NAMES['time'])})")
    if "ticker" not in table:
        table = _long(table, path)
    table = table.rename(columns={each: each.lower() for each in table.columns})
    if "close" not in table:
        raise UserError(f"{path} has no column close")
    for name in FIELDS:
        if name not in table:
            table[name] = np.inf if name == "volume" else table["close"]
    for name in FIELDS:
        if len(table) and table[name].dtype.kind not in "fiu":
            bad = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
            row = int(bad.to_numpy().argmax())
            raise UserError(
                f"{path}: row {row + 1}: {name} is {table[name].iloc[row]!r}, no number"
            )
    table["ticker"] = table["ticker"].astype(str).mask(table["ticker"].isna())
    return table.assign(time=times_of(table["time"], path, timezone, calendar))


def _csv(file: Path) -> Any:
    """A CSV file's rows; NA, NAN and NULL are tickers of stocks that are traded."""
    import pandas as pd

    names = pd.read_csv(file, nrows=0).columns
    tickers = [each for each in names if each.lower() in NAMES["ticker"]]
    left_out = {each: [""] if each in tickers else MISSING for each in names}
    return pd.read_csv(
        file, dtype=dict.fromkeys(tickers, str), keep_default_na=False, na_values=left_out
    )


def _long(wide: Any, path: str | Path) -> Any:
    """A row for each close of a table with a column for each stock."""
    if wide.shape[1] < 2 or {"close", "open"} & {name.lower() for name in wide.columns}:
        raise UserError(f"{path} has no column of tickers (one of {', '.join(NAMES['ticker'])})")
    bad = [c for c in wide.columns if c != "time" and wide[c].dtype.kind not in "fiu"]
    if bad:
        raise UserError(f"{path}: without a column of tickers, {bad[0]} must be closes of a stock")
    tall = wide.melt("time", var_name="ticker", value_name="close", ignore_index=False)
    return tall.sort_index(kind="stable").dropna(subset="close").reset_index(drop=True)


def findings(table: Any, calendar: str | None = "XNYS") -> Iterator[Finding]:
    """All that is odd about the rows of ``frame_of``, errors first."""
    row = np.arange(1, len(table) + 1)
    if not len(table):
        yield Finding("error", 0, "it has no bars: the universe is empty")
        return
    yield from _bad_numbers(table, row)
    yield from _bad_order(table, row)
    if "currency" in table and table["currency"].nunique() > 1:
        odd = int(row[(table["currency"] != table["currency"].iloc[0]).to_numpy()][0])
        names = sorted(map(str, table["currency"].unique()))
        yield Finding("error", odd, f"prices are in several currencies: {', '.join(names)}")
    yield from _off_calendar(table, row, calendar)
    if table["time"].notna().all():
        yield from _gaps(table, row)
    yield from _suspects(table, row)


def _bad_numbers(table: Any, row: Any) -> Iterator[Finding]:
    named = _namer(table)
    for name in NAMES:
        if table[name].isna().any():
            yield Finding("error", int(row[table[name].isna()][0]), f"it has no {name}")
            return
    for name in FIELDS[:4]:
        bad = ~(table[name].to_numpy(float) > 0) | np.isinf(table[name])
        missing = table[name].isna().to_numpy()
        for at in np.flatnonzero(bad & ~missing)[:NAMED]:
            words = (
                f"{name} of {named(at)} is {table[name].iloc[at]:g}: prices are above 0 and finite"
            )
            yield Finding("error", int(row[at]), words)
        for at in np.flatnonzero(missing)[:NAMED]:
            yield Finding("error", int(row[at]), f"{name} of {named(at)} is missing (NaN)")
    high, low = table["high"].to_numpy(float), table["low"].to_numpy(float)
    inner = table[["open", "close"]].to_numpy(float)
    slack = 1e-6 * np.abs(high)
    outside = (inner.max(1) > high + slack) | (inner.min(1) < low - slack)
    for at in np.flatnonzero(outside)[:NAMED]:
        yield Finding(
            "error", int(row[at]), f"open or close of {named(at)} is outside high and low"
        )
    volume = table["volume"].to_numpy(float)
    for at in np.flatnonzero(~(volume >= 0))[:NAMED]:
        words = f"volume of {named(at)} is {volume[at]:g}: it is a number from 0"
        yield Finding("error", int(row[at]), words)


def _bad_order(table: Any, row: Any) -> Iterator[Finding]:
    named = _namer(table)
    twice = table.duplicated(["time", "ticker"]).to_numpy()
    for at in np.flatnonzero(twice)[:NAMED]:
        yield Finding("error", int(row[at]), f"{named(at)} is there twice")
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
    for at in np.flatnonzero((ratio > 1.8) | (ratio < 1 / 1.8)):
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


def _panel(table: Any, path: Path, licence: str, calendar: str | None) -> MarketPanel:
    """The panel of rows that have no error."""
    import pandas as pd

    tickers = sorted(table["ticker"].unique())
    stamps = table["time"]
    days = session_dates(stamps, calendar)
    utc = stamps if stamps.dt.tz is None else stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    times, at = np.unique(utc.to_numpy("datetime64[s]"), return_inverse=True)
    column = pd.Categorical(table["ticker"], categories=tickers).codes
    arrays: dict[str, Any] = {}
    for name in FIELDS:
        arrays[name] = np.full((len(times), len(tickers)), np.nan)
        arrays[name][at, column] = table[name].to_numpy(float)
    of_bar = np.empty(len(times), "datetime64[D]")
    of_bar[at] = days
    dates, sessions = np.unique(of_bar, return_inverse=True)
    arrays["volume"] = np.nan_to_num(arrays["volume"], posinf=np.inf)
    card = SourceCard(
        str(path.name), licence, "unknown: the file does not say which names it lacks",
        hashlib.sha256(path.read_bytes()).hexdigest(),
        str(table["currency"].iloc[0]) if "currency" in table else "USD",
    )  # fmt: skip
    extra = {}
    for name in table.columns:
        if name not in (*FIELDS, "time", "ticker", "currency") and table[name].dtype.kind in "fiu":
            extra[str(name)] = np.full((len(times), len(tickers)), np.nan)
            extra[str(name)][at, column] = table[name].to_numpy(float)
    member = np.isfinite(arrays["close"])
    return MarketPanel(
        tuple(tickers), times, sessions, dates, **arrays, member=member, card=card, extra=extra
    )


def write_bars(panel: MarketPanel, path: str | Path) -> None:
    """Write a panel to a file that ``read_bars`` reads.

    Args:
        panel: bars; its universe and its card are not written.
        path: ends in ``.parquet``, ``.csv`` or ``.csv.gz``.

    Raises:
        UserError: it has another ending, or can't be written.
    """
    import pandas as pd

    bars, stocks = panel.shape
    columns = {"time": np.repeat(panel.times, stocks), "ticker": panel.tickers * bars}
    arrays = {name: getattr(panel, name) for name in FIELDS} | dict(panel.extra)
    table = pd.DataFrame(columns | {name: each.ravel() for name, each in arrays.items()})
    daily = len(panel.dates) == bars
    table["time"] = panel.dates[panel.sessions].repeat(stocks) if daily else (
        table["time"].dt.tz_localize("UTC")
    )  # fmt: skip
    write_table(table[table["close"].notna()], path)


def write_table(table: Any, path: str | Path) -> None:
    """Write rows of bars to a file that ``read_bars`` reads.

    Raises:
        UserError: it has another ending, or can't be written.
    """
    file = Path(path)
    try:
        if file.suffix == ".parquet":
            table.to_parquet(file, index=False)
        elif file.name.endswith((".csv", ".csv.gz")):
            table.to_csv(file, index=False)
        else:
            raise UserError(f"can't write {path}: bars go to .parquet, .csv or .csv.gz")
    except OSError as error:
        raise UserError(f"can't write {path}: {error}") from error


def universe(panel: MarketPanel, path: str | Path) -> MarketPanel:
    """A panel whose members are those of a file at each time.

    Args:
        panel: bars.
        path: CSV with the columns ``ticker``, ``start``, ``end`` (excluded; empty: still in).

    Raises:
        UserError: it can't be read, or nothing of the panel is ever a member.
    """
    from dataclasses import replace

    import pandas as pd

    try:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False)
        spans = list(zip(rows["ticker"], rows["start"], rows["end"], strict=True))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} is no universe (columns ticker, start, end): {error}") from error
    member, days = np.zeros(panel.shape, bool), panel.dates[panel.sessions]
    for row, (ticker, start, end) in enumerate(spans, 1):
        try:
            inside = days >= day_of(start)
            if isinstance(end, str) and end:
                inside &= days < day_of(end)
        except UserError as error:
            raise UserError(f"{path}: row {row}: {error}") from error
        if ticker in panel.tickers:
            member[:, panel.tickers.index(ticker)] |= inside
    if not member.any():
        raise UserError(f"{path}: the universe is empty, no stock of the panel is ever a member")
    return replace(panel, member=member & panel.member)

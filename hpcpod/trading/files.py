"""Bars of a user's own, from parquet or CSV: checked first, never repaired.

A file has a row for each bar of a stock: ``time`` (or ``date``), ``ticker``, ``open``, ``high``,
``low``, ``close``, ``volume``, and further numbers that were known at the bar's end; or a column of
closes for each stock, beside ``date``. Times of minute bars are the *ends* of bars, and have a time
zone or an offset, whichever: their sessions are those of the exchange.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from hpcpod.errors import UserError
from hpcpod.storage.disk import TEMPORARY, explain, unique
from hpcpod.trading.checks import ROW, findings
from hpcpod.trading.exchanges import pandas, session_dates, times_of
from hpcpod.trading.features import FEATURES
from hpcpod.trading.panel import FIELDS, MarketPanel, SourceCard, day_of

NAMES: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "datetime", "ts", "date"),
    "ticker": ("ticker", "symbol", "tic", "stock"),
}
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>")
"""Words of CSV files for a number that is not known."""
ENDINGS = (".parquet", ".csv", ".csv.gz")
"""Of the names of files of bars, in whichever case."""

PARQUET = "parquet needs pyarrow: pip install 'hpcpod[trading]'"


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
    pd, file = pandas(), Path(path)
    if file.is_dir():
        raise UserError(f"{path} is a folder: name a file of bars")
    if not file.is_file():
        raise UserError(f"there is no file {path}")
    if not is_bars(path):
        raise UserError(f"{path}: the name of a file of bars ends in {', '.join(ENDINGS)}")
    try:
        table = pd.read_parquet(file) if _is_parquet(file) else _csv(file)
    except ImportError as error:
        raise UserError(PARQUET) from error
    except Exception as error:
        raise UserError(f"{path} can't be read: {str(error).splitlines()[0]}") from error
    if not isinstance(table.index, pd.RangeIndex):  # of times, as others write parquet
        table = table.rename_axis(index=lambda name: name or "time").reset_index()
    table.columns = [str(name).strip() for name in table.columns]
    lower = {name.lower(): name for name in table.columns}
    twice = table.columns.str.lower().duplicated()
    if twice.any():
        raise UserError(f"{path}: two columns are called {table.columns[twice][0]}: leave one out")
    for name, aliases in NAMES.items():
        found = next((lower[each] for each in aliases if each in lower), None)
        if found is not None:
            table = table.rename(columns={found: name})
    if "time" not in table:
        if len(table.columns) == 1 and ";" in table.columns[0]:
            raise UserError(f"{path}: its columns are separated by semicolons: write it by commas")
        raise UserError(
            f"{path} has no column of times (one of {', '.join(NAMES['time'])}), only"
            f" {', '.join(map(repr, table.columns[:5]))}"
        )
    if "ticker" not in table:
        table = _long(table, path)
    table = table.rename(columns={each: each.lower() for each in table.columns})
    if "close" not in table:
        raise UserError(f"{path} has no column close")
    _fill(table, path)
    table["ticker"] = table["ticker"].astype(str).mask(table["ticker"].isna())
    return table.assign(time=times_of(table["time"], path, timezone, calendar))


def _fill(table: Any, path: str | Path) -> None:
    """Give a file of closes alone its other fields, and see that each is of numbers."""
    import pandas as pd

    there = [name for name in FIELDS if name in table]
    for name in there:
        if all(isinstance(each, Decimal) for each in table[name].dropna()):
            table[name] = table[name].astype(float)
        if len(table) and table[name].dtype.kind not in "fiu":
            bad = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
            row = int(bad.to_numpy().argmax())
            raise UserError(
                f"{path}: row {row + 1}: {name} is {str(table[name].iloc[row])!r}, no number"
            )
    for name in FIELDS:
        if name not in there:
            table[name] = np.inf if name == "volume" else table["close"]


def is_bars(name: str | Path) -> bool:
    """True for the name of a file of bars, by its ending."""
    return str(name).lower().endswith(ENDINGS)


def has_volume(path: str | Path) -> bool:
    """True for a file of bars with a column of volume, or that can't be read; no row of it is."""
    file = Path(path)
    try:
        if _is_parquet(file):
            from pyarrow.parquet import read_schema  # type: ignore[import-untyped]

            names = read_schema(file).names
        else:
            import pandas as pd

            names = list(pd.read_csv(file, nrows=0).columns)
    except Exception:  # whoever reads its rows says why
        return True
    return "volume" in {str(name).strip().lower() for name in names}


def _is_parquet(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def _csv(file: Path) -> Any:
    """A CSV file's rows; NA, NAN and NULL are tickers of stocks that are traded."""
    import pandas as pd

    names = pd.read_csv(file, nrows=0).columns
    tickers = [each for each in names if each.strip().lower() in NAMES["ticker"]]
    left_out = {each: [""] if each in tickers else MISSING for each in names}
    table = pd.read_csv(
        file, dtype=dict.fromkeys(tickers, str), keep_default_na=False, na_values=left_out
    )
    if not isinstance(table.index, pd.RangeIndex):  # every value stood below the next name
        raise ValueError("its rows have more values than its first line has names")
    return table


def _long(wide: Any, path: str | Path) -> Any:
    """A row for each close of a table with a column for each stock."""
    if wide.shape[1] < 2 or {"close", "open", "volume"} & {name.lower() for name in wide.columns}:
        raise UserError(f"{path} has no column of tickers (one of {', '.join(NAMES['ticker'])})")
    bad = [c for c in wide.columns if c != "time" and wide[c].dtype.kind not in "fiu"]
    if bad:
        raise UserError(f"{path}: without a column of tickers, {bad[0]} must be closes of a stock")
    tall = wide.melt("time", var_name="ticker", value_name="close", ignore_index=False)
    return tall.sort_index(kind="stable").dropna(subset="close").reset_index(names=ROW)


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
        known = (*FIELDS, *FEATURES, "time", "ticker", "currency", ROW)
        if name not in known and table[name].dtype.kind in "fiu":
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
    pd = pandas()
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
    if not is_bars(file):
        raise UserError(f"can't write {path}: bars go to .parquet, .csv or .csv.gz")
    file = file.resolve()  # a link to another disk stays one
    # a full disk left the first half of the bars
    new = file.with_name(f"{TEMPORARY}{unique()}-{file.name}")
    try:
        if _is_parquet(file):
            table.to_parquet(new, index=False)
        else:
            table.to_csv(new, index=False)
        if file.exists():
            shutil.copymode(file, new)
        new.replace(file)
    except ImportError as error:
        raise UserError(PARQUET) from error
    except OSError as error:
        raise UserError(f"can't write {path}: {explain(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


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
            inside = days >= (first := day_of(start))
            if isinstance(end, str) and end:
                if (left := day_of(end)) < first:
                    raise UserError(f"{ticker} enters on {start} and leaves on {end}: swap them?")
                inside &= days < left
        except UserError as error:
            raise UserError(f"{path}: row {row}: {error}") from error
        if ticker in panel.tickers:
            member[:, panel.tickers.index(ticker)] |= inside
    if not member.any():
        raise UserError(f"{path}: the universe is empty, no stock of the panel is ever a member")
    return replace(panel, member=member & panel.member)

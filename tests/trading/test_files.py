"""Files of bars: read as they are, refused with the row that is wrong, never repaired."""

from __future__ import annotations

import warnings
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.checks import findings
from hpcpod.trading.files import frame_of, read_bars, universe, write_table
from hpcpod.trading.sources import SOURCES, markets

pytestmark = pytest.mark.long  # pandas and the calendars take a second to load

DAYS = ["2021-11-24", "2021-11-26", "2021-11-29"]
"""The 25th was Thanksgiving, the 26th a half-day."""


def bars(tickers: str = "AB", days: list[str] = DAYS) -> pd.DataFrame:
    rows = [(day, name, 10.0, 12.0, 9.0, 11.0, 1000.0) for day in days for name in tickers]
    return pd.DataFrame(rows, columns=["date", "symbol", "Open", "High", "Low", "Close", "Volume"])


def written(folder: Path, table: pd.DataFrame, name: str = "bars.csv") -> Path:
    path = folder / name
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["bars.csv", "bars.parquet", "bars.csv.gz"])
def test_a_file_is_a_panel(tmp_path: Path, name: str) -> None:
    panel = read_bars(written(tmp_path, bars(), name), licence="mine")
    assert panel.tickers == ("A", "B")
    assert panel.dates.astype(str).tolist() == DAYS
    assert panel.close.tolist() == [[11.0, 11.0]] * 3
    assert panel.tradable.all()
    assert (panel.card.licence, len(panel.card.sha256)) == ("mine", 64)
    [same] = markets({"source": str(tmp_path / name), "below": "2021-11-29", "tickers": ["B"]})
    assert same.shape == (2, 1)


def test_closes_side_by_side_are_a_panel_too(tmp_path: Path) -> None:
    table = pd.DataFrame({"Date": DAYS, "X": [1.0, 2.0, 3.0], "Y": [4.0, np.nan, 6.0]})
    panel = read_bars(written(tmp_path, table))
    assert panel.close[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert panel.tradable[:, 1].tolist() == [True, False, True]
    assert panel.marks[:, 1].tolist() == [4.0, 4.0, 6.0]


def test_minutes_have_the_date_of_where_they_were_traded(tmp_path: Path) -> None:
    table = bars("A", ["2021-11-24 20:59", "2021-11-24 21:00", "2021-11-26 14:31"])
    with pytest.raises(UserError, match="name no time zone; say which one"):
        read_bars(written(tmp_path, table))
    with pytest.raises(UserError, match="times are not of America/NewYork"):
        read_bars(written(tmp_path, table), timezone="America/NewYork")
    panel = read_bars(written(tmp_path, table), timezone="UTC")
    assert panel.sessions.tolist() == [0, 0, 1]
    local = bars("A", ["2021-11-24 15:59", "2021-11-24 16:00", "2021-11-26 09:31"])
    same = read_bars(written(tmp_path, local), timezone="America/New_York")
    assert (same.times == panel.times).all()


def test_a_file_has_the_offsets_of_summer_and_winter(tmp_path: Path) -> None:
    table = bars("A", ["2024-03-08 09:31", "2024-03-11 09:31"])
    table["date"] = pd.to_datetime(table["date"]).dt.tz_localize("America/New_York")
    write_table(table, tmp_path / "bars.csv")
    text = (tmp_path / "bars.csv").read_text()
    assert "2024-03-08 09:31:00-05:00" in text and "2024-03-11 09:31:00-04:00" in text
    given: list[dict[str, Any]] = [{}, {"calendar": None, "timezone": "America/New_York"}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panels = [read_bars(tmp_path / "bars.csv", **each) for each in given]
    for panel in panels:
        assert panel.times.astype(str).tolist() == ["2024-03-08T14:31:00", "2024-03-11T13:31:00"]
        assert panel.dates.astype(str).tolist() == ["2024-03-08", "2024-03-11"]
    with pytest.raises(UserError, match="have the offsets -04:00 and -05:00: say in which zone"):
        read_bars(tmp_path / "bars.csv", calendar=None)
    broken = written(tmp_path, bars("A", ["2024-03-08 09:31:00-05:00", "2024-03-08 09:32:00"]))
    with pytest.raises(UserError, match="row 2: 2024-03-08 09:32:00 names no time zone, and other"):
        read_bars(broken)


def test_a_day_is_counted_in_the_exchanges_zone(tmp_path: Path) -> None:
    """Sydney opens at 23:00 UTC the day before, here on a Sunday."""
    table = bars("A", ["2024-03-10 23:01:00Z", "2024-03-11 00:01:00Z"])
    path = written(tmp_path, table)
    for given in ({"calendar": "XASX"}, {"calendar": None, "timezone": "Australia/Sydney"}):
        panel = read_bars(path, **given)
        assert panel.dates.astype(str).tolist() == ["2024-03-11"]
        assert panel.times.astype(str).tolist() == ["2024-03-10T23:01:00", "2024-03-11T00:01:00"]
    assert len(read_bars(path, calendar=None).dates) == 2
    days = written(tmp_path, bars("A", [f"{day} 00:00:00+00:00" for day in DAYS]), "days.csv")
    assert read_bars(days).dates.astype(str).tolist() == DAYS
    with pytest.raises(UserError, match=r"no calendar 'XNYX'; did you mean 'XNYS'\?; name the"):
        read_bars(path, calendar="XNYX")


@pytest.mark.parametrize("calendar", ["CMES", "us_futures"])
def test_a_session_of_futures_begins_the_evening_before(tmp_path: Path, calendar: str) -> None:
    """At 17:00 in Chicago, where clocks went forward on Sunday, the 10th."""
    chicago = {
        "2024-03-08 15:59-06:00": "2024-03-08", "2024-03-08 17:00-06:00": "2024-03-08",
        "2024-03-10 17:01-05:00": "2024-03-11", "2024-03-10 23:59-05:00": "2024-03-11",
        "2024-03-11 00:00-05:00": "2024-03-11", "2024-03-11 17:00-05:00": "2024-03-11",
        "2024-03-11 18:00-05:00": "2024-03-12",
    }  # fmt: skip
    panel = read_bars(written(tmp_path, bars("A", [*chicago])), calendar=calendar)
    assert panel.dates[panel.sessions].astype(str).tolist() == [*chicago.values()]
    path = written(tmp_path, bars("A", ["2024-03-08 15:59-06:00", "2024-03-09 12:00-06:00"]))
    with pytest.raises(UserError, match=f"row 2: 2024-03-09 is no session of {calendar}"):
        read_bars(path, calendar=calendar)
    days = written(tmp_path, bars("A", ["2024-03-08", "2024-03-11"]))
    assert read_bars(days, calendar=calendar).dates.astype(str).tolist() == [
        "2024-03-08", "2024-03-11",
    ]  # fmt: skip


def test_a_bar_that_ends_at_midnight_is_of_the_day_before(tmp_path: Path) -> None:
    ends = ["2024-03-09 12:00Z", "2024-03-10 00:00Z", "2024-03-10 00:01Z"]
    panel = read_bars(written(tmp_path, bars("A", ends)), calendar="24/7")
    assert (panel.sessions.tolist(), len(panel.dates)) == ([0, 0, 1], 2)
    days = written(tmp_path, bars("A", ["2024-03-09 00:00Z", "2024-03-10 00:00Z"]))
    assert read_bars(days, calendar="24/7").dates.astype(str).tolist() == [
        "2024-03-09", "2024-03-10",
    ]  # fmt: skip


def changed(table: pd.DataFrame, row: int, column: str, value: Any) -> pd.DataFrame:
    table = table.copy()
    table[column] = table[column].astype(object)
    table.loc[row - 1, column] = value
    return table


TWO_CURRENCIES = bars().assign(currency=["USD"] * 5 + ["EUR"])
NO_CURRENCY = bars().assign(currency=[None] + ["USD"] * 5)
SAME_SECOND = ["2021-11-24 15:00:00.1+00:00", "2021-11-24 15:00:00.9+00:00"]
WIDE = pd.DataFrame({"date": DAYS, "X": [1.0, 2.0, 3.0], "Y": [4.0, 0.0, 6.0], "Z": 1.0})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (changed(bars(), 3, "Close", -1.0), "row 3: close of A at 2021-11-26 .* is -1: prices are"),
        (changed(bars(), 4, "Open", 0.0), "row 4: open of B .* is 0: prices are above 0"),
        (changed(bars(), 2, "Low", np.nan), "row 2: low of B at 2021-11-24 .* is missing"),
        (changed(bars(), 5, "High", 10.5), "row 5: open or close of A .* is outside high and low"),
        (changed(bars(), 6, "Volume", -3.0), "row 6: volume of B .* is -3"),
        (bars().iloc[[0, 1, 2, 2, 3]], "row 4: A at 2021-11-26 .* is there twice"),
        (bars("A", SAME_SECOND), "row 2: A at .* is in the same second as another bar, and times"),
        (bars().iloc[[0, 2, 1, 3, 5, 4]].iloc[[2, 0, 1, 3, 5, 4]], None),
        (bars("A").iloc[[0, 2, 1]], "row 3: A at 2021-11-26 .* is older than the row before it"),
        (bars("A", ["2021-11-24", "2021-11-25"]), "row 2: 2021-11-25 is no session of XNYS"),
        (TWO_CURRENCIES, "row 6: prices are in several currencies: EUR, USD"),
        (NO_CURRENCY, "row 1: it has no currency, and the file a column"),
        (WIDE, "row 2: close of Y at 2021-11-26 00:00:00 is 0: prices are above 0"),
        (changed(bars(), 2, "symbol", " A"), "row 2: ticker ' A' has a blank"),
        (bars().iloc[:0], "the universe is empty"),
        (changed(bars(), 4, "symbol", None), "row 4: it has no ticker"),
        (changed(bars(), 3, "High", np.inf), "row 3: high of A .* is inf: prices are above 0 and"),
        (bars().assign(close=11.0), "two columns are called close: leave one out"),
        (bars("A", ["20211124", "20211126"]), "times such as 20211124 are whole numbers, too"),
        (bars().drop(columns="Close"), "has no column close"),
        (bars().drop(columns="date"), "has no column of times"),
        (bars().drop(columns="symbol"), "has no column of tickers"),
        (changed(bars(), 1, "date", "soon"), "row 1: 'soon' is no time"),
        (changed(bars(), 2, "Open", "1,234.5"), "row 2: open is '1,234.5', no number"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused_with_its_row(
    tmp_path: Path, table: pd.DataFrame, said: str | None
) -> None:
    path = written(tmp_path, table)
    if (
        said is None
    ):  # the order of stocks in a moment does not matter; a wide table is one of closes
        assert read_bars(path).shape[0] >= 3
        return
    with pytest.raises(UserError, match=said):
        read_bars(path)


def test_parquet_may_have_its_times_in_the_index(tmp_path: Path) -> None:
    """As pandas writes what other packages return: named, unnamed, or beside the tickers."""
    dated = bars().assign(date=lambda t: pd.to_datetime(t["date"]))
    both = dated.set_index(["date", "symbol"])
    for table in (dated.set_index("date"), dated.set_index("date").rename_axis(None), both):
        panel = read_bars(written(tmp_path, table, "indexed.parquet"))
        assert (panel.tickers, panel.shape) == (("A", "B"), (3, 2))


def test_decimals_are_numbers_and_a_missing_number_is_missing(tmp_path: Path) -> None:
    prices = [Decimal("10.50")] * 6
    exact = bars().assign(Open=prices, Close=prices)
    assert read_bars(written(tmp_path, exact, "d.parquet")).close.tolist() == [[10.5, 10.5]] * 3
    table = bars().astype({"Close": "Float64", "Volume": "Int64"})
    assert read_bars(written(tmp_path, table, "n.parquet")).close.tolist() == [[11.0, 11.0]] * 3
    table.loc[2, "Close"] = pd.NA
    with pytest.raises(UserError, match=r"row 3: close of A at 2021-11-26 .* is missing \(NaN\)"):
        read_bars(written(tmp_path, table, "n.parquet"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("2021-11-24,A,11,5\n2021-11-26,A,12,6", "more values than its first line has names"),
        ("2021-11-24,A,11,\n2021-11-26,A,12,", "more values than its first line has names"),
        ("2021-11-24,A,11,5,6\n2021-11-26,A,12", "more values than its first line has names"),
        ('2021-11-24,A,"1,101"', "row 1: close is '1,101', no number"),
        ("2021-11-24,A,True", "row 1: close is 'True', no number"),
    ],
)
def test_values_without_a_name_and_closes_that_are_none_are_told(
    tmp_path: Path, rows: str, said: str
) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(f"date,ticker,close\n{rows}\n")
    with pytest.raises(UserError, match=said):
        read_bars(path)


def test_semicolons_are_told(tmp_path: Path) -> None:
    bars().to_csv(path := tmp_path / "bars.csv", sep=";", index=False)
    with pytest.raises(UserError, match="separated by semicolons"):
        read_bars(path)


def test_na_is_a_ticker_in_its_column_and_no_number_in_others(tmp_path: Path) -> None:
    table = bars().replace({"A": "NA", "B": "0700"}).assign(signal=["NA", "1", "2", "3", "4", "5"])
    panel = read_bars(written(tmp_path, table))
    assert panel.tickers == ("0700", "NA")
    assert np.isnan(panel.extra["signal"][0, 1]) and panel.extra["signal"][2].tolist() == [5.0, 4.0]
    spans = written(
        tmp_path, pd.DataFrame({"ticker": ["NA"], "start": [DAYS[1]], "end": [""]}), "u"
    )
    assert universe(panel, spans).member.tolist() == [[False, False], [False, True], [False, True]]


def test_a_universe_is_as_of_its_time(tmp_path: Path) -> None:
    panel = read_bars(written(tmp_path, bars()))
    spans = tmp_path / "members.csv"
    spans.write_text("ticker,start,end\nA,2021-01-01,2021-11-26\nB,2021-11-26,\nZ,2000-01-01,\n")
    assert universe(panel, spans).tradable.tolist() == [[True, False], [False, True], [False, True]]
    spans.write_text("ticker,start,end\nZ,2000-01-01,\n")
    with pytest.raises(UserError, match="the universe is empty"):
        universe(panel, spans)
    spans.write_text("ticker,start,end\nA,2021-01-01,\nB,soon,\n")
    with pytest.raises(UserError, match="row 2: expected a date such as 2019-05-13, got 'soon'"):
        universe(panel, spans)
    spans.write_text("ticker,start,end\nA,2021-01-01,2020-01-01\n")
    with pytest.raises(UserError, match="row 1: A enters on 2021-01-01 and leaves on 2020-01-01"):
        universe(panel, spans)
    spans.write_text("ticker,start,end\nA,2021-01-01,2021-01-01\nB,2021-01-01,\n")
    found = universe(panel, spans).member
    assert not found[:, 0].any() and found[:, 1].all()
    spans.write_text("name\nA\n")
    with pytest.raises(UserError, match="is no universe"):
        universe(panel, spans)


def installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not installed("skfolio"), reason="pip install --no-deps skfolio")
def test_twenty_real_stocks() -> None:
    [panel] = markets({"source": "skfolio:sp500", "below": "2000-01-03"})
    assert panel.shape == (2528, 20)
    assert (panel.card.licence, panel.dates[0].astype(str)) == (
        "BSD-3-Clause (the package's)", "1990-01-02",
    )  # fmt: skip
    assert panel.close[0, panel.tickers.index("AAPL")] == 0.264


@pytest.mark.skipif(not installed("universal-portfolios"), reason="pip install it --no-deps")
def test_a_real_panel_without_dates() -> None:
    """36 stocks; the published wealth of equal weights, held, is 14.50 (Cover's market)."""
    [panel] = markets({"source": "universal-portfolios:nyse_o"})
    assert panel.shape == (5651, 36)
    assert panel.close[-1].mean() == pytest.approx(14.50, abs=0.01)


def test_gaps_are_named_with_the_rows_behind_them_and_then_counted(tmp_path: Path) -> None:
    days = pd.bdate_range("2021-03-01", periods=22).strftime("%Y-%m-%d").tolist()
    table = bars("AB", days[:9] + days[14:])  # a week is missing, of all
    lacking = [days[each] for each in (1, 3, 4, 6, 8, 16)]
    table = table[~((table["symbol"] == "B") & table["date"].isin(lacking))]
    found = [str(each) for each in findings(frame_of(written(tmp_path, table)))]
    assert found == [
        "row 14: 2021-03-12, a session of XNYS, is missing before A at 2021-03-19 00:00:00",
        "row 14: 2021-03-15, a session of XNYS, is missing before A at 2021-03-19 00:00:00",
        "row 14: 2021-03-16, a session of XNYS, is missing before A at 2021-03-19 00:00:00",
        "2 more sessions of XNYS are missing, the last of them 2021-03-18",
        "row 5: B at 2021-03-03 00:00:00 comes after a gap: a bar is missing",
        "row 9: B at 2021-03-08 00:00:00 comes after a gap: 2 bars are missing",
        "row 12: B at 2021-03-10 00:00:00 comes after a gap: a bar is missing",
        "gaps in all: 5; stocks that have some: 1",
        "stocks that have less than 95 % of the bars: 1; B has 11 of 17, from 2021-03-01"
        " 00:00:00 to 2021-03-30 00:00:00",
    ]


def test_one_day_is_a_panel(tmp_path: Path) -> None:
    assert read_bars(written(tmp_path, bars("AB", DAYS[:1]))).shape == (1, 2)


def test_sources_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file nowhere\.csv"):
        markets({"source": "nowhere.csv"})
    with pytest.raises(UserError, match=r"there is no market 'nasdaq' \(there are synthetic"):
        markets({"source": "nasdaq"})
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match=r"broken\.parquet can't be read"):
        read_bars(broken)
    assert set(SOURCES) == {"synthetic", "skfolio:sp500", "universal-portfolios:nyse_o"}


def test_a_name_ends_in_upper_case_too_and_no_other_is_a_file_of_bars(tmp_path: Path) -> None:
    assert read_bars(written(tmp_path, bars(), "BARS.CSV")).shape == (3, 2)
    assert markets({"source": str(tmp_path / "BARS.CSV")})[0].shape == (3, 2)
    other = written(tmp_path, bars(), "bars.txt")
    with pytest.raises(UserError, match=r"ends in \.parquet, \.csv, \.csv\.gz"):
        frame_of(other)
    with pytest.raises(UserError, match=r"no market .*files whose names end in \.parquet"):
        markets({"source": str(other)})


@pytest.mark.parametrize("odd", ["2021-11-07 01:30", "2021-03-14 02:30"])
def test_an_hour_that_is_skipped_or_there_twice_is_named_with_its_row(
    odd: str, tmp_path: Path
) -> None:
    path = written(tmp_path, bars("A", ["2021-03-10 09:31", odd]))
    said = f"row 2: {odd}:00 is skipped or there twice in America/New_York, where clocks change"
    with pytest.raises(UserError, match=said):
        frame_of(path, timezone="America/New_York", calendar=None)

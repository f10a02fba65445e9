"""Findings in files of bars: what is refused, what is only odd, and the row of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.checks import findings
from hpcpod.trading.files import frame_of, read_bars
from tests.trading.test_files import WIDE, bars, changed, written

pytestmark = pytest.mark.long  # pandas and the calendars take a second to load


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("Close", 1e308, r"close of A at .* is 1e\+308: prices are from 1e-12 to 1e\+12"),
        ("Low", 1e-300, r"low of A at .* is 1e-300: prices are from 1e-12 to 1e\+12"),
        ("Volume", np.inf, "volume of A at .* is inf: it is a finite number from 0"),
    ],
)
def test_numbers_that_no_market_has_are_refused(
    tmp_path: Path, column: str, value: float, said: str
) -> None:
    with pytest.raises(UserError, match=f"row 3: {said}"):
        read_bars(written(tmp_path, changed(bars(), 3, column, value)))


def test_an_infinite_bar_is_told_without_a_warning_of_numpy_s(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    table = bars()
    table.loc[2, ["Open", "High", "Low", "Close"]] = np.inf
    found = [str(each) for each in findings(frame_of(written(tmp_path, table)))]
    assert sum("is inf: prices are above 0 and finite" in each for each in found) == 4
    assert not recwarn.list


def test_three_for_two_looks_like_a_split(tmp_path: Path) -> None:
    days = pd.bdate_range("2021-01-04", periods=10).strftime("%Y-%m-%d").tolist()
    table = bars("A", days)
    table.loc[5:, ["Open", "High", "Low", "Close"]] /= 1.5
    found = [str(each) for each in findings(frame_of(written(tmp_path, table)))]
    assert [each for each in found if "split" in each] == [
        "row 6: A at 2021-01-11 00:00:00 moves by a factor of 0.667: is it an unadjusted split?"
    ]
    table.loc[5:, ["Open", "High", "Low", "Close"]] *= 1.5 * 0.75  # a bad day
    assert not [
        each for each in findings(frame_of(written(tmp_path, table))) if "split" in str(each)
    ]


def test_all_findings_beside_a_missing_price_are_told(tmp_path: Path) -> None:
    table = frame_of(written(tmp_path, changed(bars(), 3, "Close", np.nan)))
    first = str(next(findings(table)))
    assert first == "row 3: close of A at 2021-11-26 00:00:00 is missing (NaN)"
    assert len(list(findings(table))) == 1, "no warning of pandas either"


def test_what_is_only_odd_is_a_warning(tmp_path: Path) -> None:
    days = pd.bdate_range("2021-01-04", periods=40).strftime("%Y-%m-%d").tolist()
    table = bars("AB", [day for day in days if day not in ("2021-01-18", "2021-02-15")])
    table.loc[10, "Volume"] = 0.0
    split = (table["symbol"] == "B") & (table["date"] > "2021-02-01")
    table.loc[split, ["Open", "High", "Low", "Close"]] /= 4
    table = table[~((table["symbol"] == "A") & (table["date"] > "2021-02-10"))]
    table = table[table["date"] != "2021-01-12"]
    path = written(tmp_path, table)
    found = [each.words for each in findings(frame_of(path))]
    assert len(found) == 4
    for each in (
        "2021-01-12, a session of XNYS, is missing before A at 2021-01-13", "no volume, and 0 more",
        "moves by a factor of 0.250: is it an unadjusted split?", "less than 95 % of the bars: 1;",
    ):  # fmt: skip
        assert any(each in words for words in found), each
    read_bars(path)  # it is not refused


def test_bars_outside_of_the_exchange_s_hours_are_a_warning(tmp_path: Path) -> None:
    """The 26th was a half-day; a bar that is named by its beginning is inside."""
    inside = ["2021-11-24 14:30Z", "2021-11-24 21:00Z", "2021-11-26 18:00Z"]
    assert not [*findings(frame_of(written(tmp_path, bars("A", inside))))]
    path = written(tmp_path, bars("A", ["2021-11-24 14:29Z", *inside, "2021-11-26 18:01Z"]))
    assert [str(each) for each in findings(frame_of(path))] == [
        "row 1: A at 2021-11-24 09:29:00-05:00 ends outside of the hours of XNYS, and 1 more: is"
        " the time zone another one?"
    ]


def test_of_closes_side_by_side_the_file_s_rows_are_named(tmp_path: Path) -> None:
    lacking = WIDE.assign(X=[1.0, np.nan, 3.0])
    found = [str(each) for each in findings(frame_of(written(tmp_path, lacking)))]
    assert (
        found[0] == "row 2: close of Y at 2021-11-26 00:00:00 is 0: prices are above 0 and finite"
    )
    assert found[1].startswith(
        "row 3: X at 2021-11-29 00:00:00 comes after a gap: a bar is missing"
    )
    assert len([each for each in found if each.startswith("row 2")]) == 1


def test_a_column_of_a_feature_s_name_is_not_read_and_check_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, bars().assign(macd=1.0, mine=2.0))
    assert list(read_bars(path).extra) == ["mine"]
    [said] = [str(each) for each in findings(frame_of(path)) if "macd" in str(each)]
    assert said.startswith(
        "column macd is not read: the feature of that name is made from the bars"
    )


def test_a_number_of_the_file_s_own_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    table = bars().assign(mine=[1.0, np.nan, 3.0, np.inf, 5.0, 6.0], sector="tech")
    assert [str(each) for each in findings(frame_of(written(tmp_path, table)))] == [
        "row 2: mine of B at 2021-11-24 00:00:00 is not known, nor 1 more"
    ]


def test_a_gap_of_all_stocks_within_a_day_is_named_with_the_row_behind_it(tmp_path: Path) -> None:
    """A pause at noon, of each day, and a short last day are none."""
    hours = [10, 11, 14, 15, 16]
    times = [f"2021-03-{day:02} {hour}:00-05:00" for day in range(1, 6) for hour in hours]
    for gone in ("2021-03-02 11", "2021-03-04 14", "2021-03-04 15", "2021-03-05 16"):
        times.remove(f"{gone}:00-05:00")
    found = [str(each) for each in findings(frame_of(written(tmp_path, bars("AB", times))))]
    said = "comes after a gap of all stocks"
    assert found == [
        f"row 13: A at 2021-03-02 14:00:00-05:00 {said}: a bar is missing",
        f"row 33: A at 2021-03-04 16:00:00-05:00 {said}: 2 bars are missing",
    ]


def test_a_day_that_begins_at_one_o_clock_has_no_gap(tmp_path: Path) -> None:
    """Clocks in Brazil jumped over midnight."""
    hours = pd.date_range("2018-11-02", "2018-11-06", freq="h", tz="America/Sao_Paulo")
    path = written(tmp_path, bars("AB", [str(each) for each in hours]))
    table = frame_of(path, "America/Sao_Paulo", None)
    assert not [str(each) for each in findings(table) if "gap" in str(each)]

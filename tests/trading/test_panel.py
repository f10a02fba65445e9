"""Panels: their ceiling, their parts, their names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.panel import FIELDS, CeilingPassed
from tests.trading.small import daily, market


def test_a_ceiling_cuts_off_what_lies_above_it() -> None:
    panel = market()
    day = panel.dates[40]
    below = panel.below(day)
    assert below.dates[-1] == panel.dates[39]
    assert below.ceiling == day
    assert len(below.times) == (panel.sessions < 40).sum()
    for name in (*FIELDS, "member"):
        array = getattr(below, name)
        assert len(array) == len(below.times)
        assert array.base is None, f"{name} is a view, by whose base all rows can be read"
    assert below.extra["signal"].base is None


@pytest.mark.parametrize("over", ["below", "between"])
def test_asking_above_the_ceiling_is_an_error(over: str) -> None:
    panel = market()
    below, later = panel.below(panel.dates[40]), panel.dates[41]
    with pytest.raises(CeilingPassed, match=f"{later} were asked for, but .* {panel.dates[40]}"):
        below.below(later) if over == "below" else below.between(panel.dates[3], later)


def test_a_part_has_its_sessions_counted_from_0() -> None:
    panel = market()
    part = panel.between(panel.dates[10], panel.dates[12])
    assert list(part.dates) == list(panel.dates[10:12])
    assert sorted(set(part.sessions)) == [0, 1]
    with pytest.raises(UserError, match="has no session in 2031-01-01 to 2031-02-01"):
        panel.between("2031-01-01", "2031-02-01")
    with pytest.raises(UserError, match="expected a date such as 2019-05-13, got 'soon'"):
        panel.below("soon")


def test_marks_are_the_last_known_closes() -> None:
    panel = daily([[10.0], [np.nan], [12.0]])
    assert panel.marks.tolist() == [[10.0], [10.0], [12.0]]
    assert panel.tradable.tolist() == [[True], [False], [False]]  # it opens at an unknown price
    assert panel.traded.tolist() == panel.tradable.tolist()
    late = daily([[np.nan], [11.0], [12.0]])
    assert np.isnan(late.marks[0, 0])


def test_some_stocks_of_a_panel() -> None:
    panel = daily([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert panel.of(["C", "A"]).close.tolist() == [[3.0, 1.0], [6.0, 4.0]]
    with pytest.raises(UserError, match="by hand has no Z"):
        panel.of(["Z"])
    with pytest.raises(UserError, match="each stock once"):
        panel.of(["A", "A"])


def test_a_blind_panel_has_the_same_bars_under_other_names_and_dates() -> None:
    panel = market()
    blind = panel.blind(1)
    assert set(blind.tickers).isdisjoint(panel.tickers)
    assert blind.dates[-1] < panel.dates[0]
    assert [d.weekday() for d in blind.dates.tolist()] == [
        d.weekday() for d in panel.dates.tolist()
    ]
    assert sorted(blind.close[-1]) == sorted(panel.close[-1])
    assert blind.digest() != panel.digest()
    assert blind.digest() == panel.blind(1).digest() != panel.blind(2).digest()


def test_the_first_bars_are_those_that_there_are() -> None:
    panel = market()
    assert len(panel.first(7).times) == 7
    for wrong in (0, len(panel.times) + 1):
        with pytest.raises(UserError):
            panel.first(wrong)


def test_a_stock_whose_name_is_a_number_may_be_named_by_it() -> None:
    panel = replace(market(), tickers=("600519", "5", "A"))
    assert panel.of([5, "600519"]).tickers == ("5", "600519")  # type: ignore[list-item]
    for wrong in (5, "A"):
        with pytest.raises(UserError, match="expected a list of stocks"):
            panel.of(wrong)  # type: ignore[arg-type]

"""The ledger of holdouts: days that were seen are known again, whatever their file is called."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import MOST_MARKS, judge
from hpcpod.trading.ledger import Ledger, Opening
from hpcpod.trading.sources import markets
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import Verdict

MARKET = {"stocks": 4, "days": 250, "minutes": 13, "seed": 50}


def opened(market: dict[str, Any], ledger: Path, run: str = "one") -> Verdict:
    """The holdout of a market, opened for a policy that follows the signal."""
    task = task_of("trading", {"market": market, "stride": 4, "features": ["signal"]})
    return judge(task, {"a": follow}, run=run, ledger=ledger)


def follow(obs: Tensor) -> Tensor:
    return (obs[:, :4] > 0).float()


def bars_of(file: Path) -> dict[str, Any]:
    return {"source": str(file), "calendar": None}


def test_bars_under_another_name_are_the_same_holdout(tmp_path: Path) -> None:
    """Also as parquet, before more rows were appended, and after a split was adjusted for."""
    [panel] = markets(MARKET)
    half = {name: getattr(panel, name) / 2 for name in ("open", "high", "low", "close")}
    files = {
        "bars.csv": panel, "b.csv": panel, "bars.parquet": panel,
        "shorter.csv": panel.below(panel.dates[240]), "split.csv": replace(panel, **half),
    }  # fmt: skip
    for count, (name, bars) in enumerate(files.items(), 1):
        write_bars(bars, tmp_path / name)
        told = opened(bars_of(tmp_path / name), tmp_path / "ledger")
        assert len(told.openings) == told.times == count, name


def test_bars_of_the_same_name_are_the_same_holdout_whatever_their_prices(tmp_path: Path) -> None:
    """No growth of prices that were adjusted and rounded anew, or of others, is known again."""
    [panel] = markets(MARKET)
    prices = ("open", "high", "low", "close")
    rounded = replace(panel, **{name: (getattr(panel, name) / 17).round(2) for name in prices})
    [other] = markets({**MARKET, "seed": 51})
    for count, bars in enumerate((panel, rounded, other), 1):
        file = tmp_path / str(count) / "bars.csv"
        file.parent.mkdir()
        write_bars(bars, file)
        told = opened(bars_of(file), tmp_path / "ledger")
        assert [each.sources for each in told.openings] == [("bars.csv",)] * count
    marks = [set(each.marks) for each in Ledger(tmp_path / "ledger").openings()]
    assert not marks[0] & (marks[1] | marks[2])


def test_openings_of_other_stocks_or_dates_do_not_overlap_though_their_name_is_the_same() -> None:
    line = Opening(
        "one", "p", ("bars.csv",), ("A", "B"), "2020-01-01", "2020-02-01", 0.1, marks=("m",)
    )
    assert line.overlaps(replace(line, tickers=("B",), first="2020-02-01", marks=("n",)))
    assert not line.overlaps(replace(line, tickers=("C",)))
    assert not line.overlaps(replace(line, first="2020-02-02", last="2020-03-01"))


def test_a_line_of_an_earlier_version_goes_by_its_source(tmp_path: Path) -> None:
    line = Opening("one", "p", ("bars.csv",), ("A",), "2020-01-01", "2020-02-01", 0.1, marks=("m",))
    renamed, other = replace(line, sources=("b.csv",)), replace(line, marks=("n",))
    assert line.overlaps(renamed) and line.overlaps(other) and not renamed.overlaps(other)
    book = Ledger(tmp_path)
    path = tmp_path / f"{book.write(line)}.json"
    written = json.loads(path.read_text())
    del written["marks"]
    path.write_text(json.dumps(written))
    [old] = book.openings()
    assert old == replace(line, marks=())
    assert old.overlaps(line) and other.overlaps(old)
    assert not old.overlaps(renamed)


def test_an_opening_of_many_markets_keeps_marks_of_each(tmp_path: Path) -> None:
    opened({**MARKET, "markets": 8}, tmp_path, "all")
    [line] = Ledger(tmp_path).openings()
    assert len(line.marks) == MOST_MARKS
    for seed in range(50, 58):
        told = opened({**MARKET, "seed": seed}, tmp_path)
        assert [each.run for each in told.openings] == ["all", "one"]
        assert not any(each.marks for each in told.openings), "a verdict has the ledger beside it"

"""``hpcpod data``: what it writes, says and refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.trading.features import cuts
from hpcpod.trading.files import read_bars
from hpcpod.trading.sources import markets
from hpcpod.trading.synthetic import SyntheticMarket
from tests.support.command_line import refusal
from tests.support.full_disk import room_for

pytestmark = pytest.mark.long  # pandas and the calendars take a second to load

SETS = ["--set", "days=5", "--set", "minutes=13", "--set", "stocks=2"]


@pytest.mark.parametrize("name", ["bars.parquet", "bars.csv"])
def test_a_synthetic_market_comes_back_from_its_file(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["data", "synth", str(path), *SETS]) == 0
    assert "2 stocks, 65 bars" in capsys.readouterr().out
    panel = read_bars(path, calendar=None, timezone="UTC")
    made = SyntheticMarket(days=5, minutes=13, stocks=2).panel()
    assert panel.close.tolist() == made.close.tolist()
    assert panel.sessions.tolist() == made.sessions.tolist()
    assert panel.extra["signal"] == pytest.approx(made.extra["signal"])
    assert main(["data", "synth", str(path), *SETS]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bars.parquet", "bars.csv"])
def test_bars_that_the_disk_has_no_room_for_leave_the_file_as_it_was(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["data", "synth", str(path), *SETS]) == 0
    before, more = path.read_bytes(), ["--set", "days=60", "--set", "minutes=39", "--overwrite"]
    with room_for(100_000):
        assert main(["data", "synth", str(path), *more]) == 2
    assert f"can't write {path}: " in capsys.readouterr().err
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_source_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "info", "synthetic", *SETS, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["stocks"], told["sessions"], told["from"]) == (2, 5, "2000-01-03")
    assert main(["data", "info", "synthetic", *SETS]) == 0
    assert "survivorship  no stock ever leaves it" in capsys.readouterr().out


def test_a_check_tells_all_and_fails_by_errors_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("date,ticker,close\n2021-11-24,A,1\n2021-11-25,A,-2\n2021-11-26,A,1.1\n")
    assert main(["data", "check", str(path)]) == 2
    out = capsys.readouterr().out
    assert "error: row 2: close of A" in out
    assert "error: row 2: 2021-11-25 is no session of XNYS" in out
    head = "date,ticker,open,high,low,close,volume\n"
    path.write_text(f"{head}2021-11-24,A,2,3,1,2,9\n2021-11-26,A,2,3,1,2.1,9\n")
    assert main(["data", "check", str(path)]) == 0
    assert capsys.readouterr().out == "nothing is odd\n"


def test_columns_that_a_file_lacks_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("date,ticker,high,low,close\n2021-11-24,A,3,1,2\n2021-11-26,A,3,1,2.1\n")
    assert main(["data", "check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "warning: open: no numbers of their own, the close is taken for each; an order that"
        " fill: open fills has the next bar's close",
        "warning: volume: no numbers, it is taken for unlimited, and volume_z means nothing",
    ]
    path.write_text("date,A\n2021-11-24,2\n2021-11-26,2.1\n")  # closes alone are meant
    assert main(["data", "check", str(path)]) == 0
    assert capsys.readouterr().out == "nothing is odd\n"


def test_features_are_tried_and_one_that_looks_ahead_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sets = ["--set", "days=12", "--set", "minutes=13"]
    assert main(["data", "features", "synthetic", "return_5", "signal", *sets]) == 0
    out = capsys.readouterr().out
    tried = len(cuts(markets({"days": 12, "minutes": 13})[0]))
    assert f"return_5       no look-ahead found in {tried} cuts, known from bar 5 on" in out
    assert "signal         of the file's own, untested, known from bar 0 on" in out
    bad = "tests.trading.test_features:tomorrow"
    assert main(["data", "features", "synthetic", bad, *sets]) == 2
    assert "looks ahead" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["info", "synthetic", "--set", "days"], "--set takes NAME=VALUE, got 'days'"),
        (["info", "synthetic", "--set", "days=[1"], "--set days=[1: line 1"),
        (["synth", "bars.csv", "--set", "start=2021-13-01"], "expected a date such as"),
        (["info", "synthetic", "--set", "tickers=ON"], "has no ON"),
        (["info", "synthetic", "--set", "days=soon"], "days, a whole number from 2, got 'soon'"),
        (["info", "synthetic", "--set", "seed=-1"], "seed is a whole number from 0, got -1"),
        (["check", "bars.txt"], "there is no file bars.txt"),
        (["info", "synthetic", "--set", "tickers=[]"], "name each stock once"),
        (["info", "synthetic", "rsi_30"], "hpcpod data info takes no features"),
        (["check", "nowhere.csv"], "there is no file nowhere.csv"),
        (["check", "."], ". is a folder: name a file of bars"),
        (
            ["info", "synthetic", "--set", f"stocks={10**13}"],
            "MemoryError: Unable to allocate",
        ),
        (["synth", "bars.xlsx"], "can't write bars.xlsx: bars go to .parquet"),
        (["synth", "bars.csv", "--set", "markets=2"], "a file holds one market"),
    ],
)
def test_what_can_t_be_done_is_one_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ("pandas", "synth bars.csv --set days=3 --set minutes=2"),
        ("pandas", "info universal-portfolios:nyse_o"),
        ("pandas", "fetch bars.csv --set vendor=alpaca --set tickers=A --set start=2024-01-02"
         " --set end=2024-01-05"),
        ("pyarrow", "synth bars.parquet --set days=3 --set minutes=2"),
        ("pyarrow", "check empty.parquet"),
    ],
)  # fmt: skip
def test_where_the_extra_is_not_installed_it_is_named(
    lacking: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, lacking, None)
    for key in ("KEY_ID", "SECRET_KEY"):
        monkeypatch.setenv(f"APCA_API_{key}", "none")
    Path("empty.parquet").touch()
    said = f"need.? {lacking}: pip install 'hpcpod\\[trading\\]'\n"
    assert re.search(said, refusal(capsys, "data", *words.split()))
    assert [path.name for path in tmp_path.iterdir()] == ["empty.parquet"]

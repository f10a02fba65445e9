"""Vendors: their published formats become files of bars, over real HTTP and real SQL."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlparse

import pytest

from hpcpod.errors import UserError
from hpcpod.trading.checks import findings
from hpcpod.trading.files import frame_of, read_bars, write_table
from hpcpod.trading.vendors import Alpaca, Bar, Every, Wrds, fetched, vendor_of
from tests.support.command_line import refusal


def bar(at: str, close: float) -> dict[str, Any]:
    return {"t": at, "o": close - 1, "h": close + 1, "l": close - 2, "c": close, "v": 900, "n": 3,
            "vw": close}  # fmt: skip


# 2023-11-24 was a half-day: the exchange closed at 13:00, 18:00 UTC.
MINUTES = [
    {"bars": {"AA": [bar("2023-11-24T14:29:00Z", 10.0), bar("2023-11-24T14:30:00Z", 11.0)]},
     "next_page_token": "QUFBQQ=="},
    {"bars": {"AA": [bar("2023-11-24T17:59:00Z", 12.0), bar("2023-11-24T18:00:00Z", 13.0)],
              "BB": [bar("2023-11-24T17:59:00Z", 50.0)]}, "next_page_token": None},
]  # fmt: skip
DAYS = [{"bars": {"AA": [bar("2023-11-22T05:00:00Z", 10.0), bar("2023-11-24T05:00:00Z", 11.0)]},
         "next_page_token": None}]  # fmt: skip


class Recorded(BaseHTTPRequestHandler):
    """Answers as they were recorded, a page for each token."""

    asked: ClassVar[list[dict[str, list[str]]]] = []
    refusals: ClassVar[list[tuple[int, bytes]]] = []

    def do_GET(self) -> None:
        query = parse_qs(urlparse(self.path).query)
        self.asked.append(query)
        status, body = 200, b""
        if self.refusals:
            status, body = self.refusals.pop(0)
        elif self.headers["APCA-API-SECRET-KEY"] != "secret":
            status, body = 403, b'{"message": "forbidden."}'
        else:
            pages = MINUTES if query["timeframe"] == ["1Min"] else DAYS
            body = json.dumps(pages["page_token" in query]).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def alpaca(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recorded]]:
    server = HTTPServer(("127.0.0.1", 0), Recorded)
    Recorded.asked.clear()
    Recorded.refusals.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("APCA_API_DATA_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("APCA_API_KEY_ID", "key")
    monkeypatch.setenv("APCA_API_SECRET_KEY", "secret")
    yield Recorded
    server.shutdown()
    thread.join()
    server.server_close()


def test_minutes_come_in_pages_and_end_in_the_exchange_s_hours(
    alpaca: type[Recorded], tmp_path: Path
) -> None:
    table, outside = fetched(
        vendor_of("alpaca"), ["AA", "BB"], "2023-11-24", "2023-11-25", "minute"
    )
    assert outside == 2  # a minute before the opening, and one after the close of a half-day
    assert [query.get("page_token") for query in alpaca.asked] == [None, ["QUFBQQ=="]]
    assert alpaca.asked[0]["adjustment"] == ["all"]
    write_table(table, tmp_path / "bars.parquet")
    panel = read_bars(tmp_path / "bars.parquet")
    assert panel.tickers == ("AA", "BB")
    assert [str(each) for each in panel.times] == ["2023-11-24T14:31:00", "2023-11-24T18:00:00"]
    assert panel.close[:, 0].tolist() == [11.0, 12.0]
    assert str(panel.dates[0]) == "2023-11-24"


@pytest.mark.parametrize(
    ("calendar", "said"),
    [("null", "every=minute takes its calendar, such as calendar=XNYS"), ("XXXX", "XXXX")],
)
def test_minutes_without_a_calendar_are_refused_before_anything_is_asked_for(
    alpaca: type[Recorded], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    calendar: str, said: str,
) -> None:  # fmt: skip
    sets = ["vendor=alpaca", "tickers=AA", "every=minute", "start=2023-11-24", "end=2023-11-25"]
    words = [word for each in (*sets, f"calendar={calendar}") for word in ("--set", each)]
    assert said in refusal(capsys, "data", "fetch", str(tmp_path / "bars.csv"), *words)
    assert not alpaca.asked and not (tmp_path / "bars.csv").exists()


def test_days_are_dates_of_new_york(alpaca: type[Recorded], tmp_path: Path) -> None:
    table, _ = fetched(vendor_of("alpaca"), ["AA"], "2023-11-22", "2023-11-25")
    write_table(table, tmp_path / "bars.csv")
    assert not [each for each in findings(frame_of(tmp_path / "bars.csv")) if each.kind == "error"]
    panel = read_bars(tmp_path / "bars.csv")
    assert [str(each) for each in panel.dates] == ["2023-11-22", "2023-11-24"]


def test_a_vendor_that_is_busy_is_asked_again_and_a_refusal_is_one_sentence(
    alpaca: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    alpaca.refusals += [(429, b"{}"), (500, b"")]
    table, _ = fetched(Alpaca(wait=waits.append), ["AA"], "2023-11-22", "2023-11-25")
    assert (len(table), waits) == (2, [2.0, 4.0])
    alpaca.refusals += [(422, b'{"message": "invalid symbol: A A"}')]
    for wrong, said in [
        (["A A"], r"alpaca refuses \(422\): invalid symbol: A A"),
        (["AA", "ZZ"], "there are no bars of ZZ from 2023-11-22"),
        ([], "name each ticker once"),
    ]:
        with pytest.raises(UserError, match=said):
            fetched(Alpaca(), wrong, "2023-11-22", "2023-11-25")
    alpaca.refusals += [(200, b'{"bars": []}')]
    with pytest.raises(UserError, match="is none that is known here"):
        fetched(Alpaca(), ["AA"], "2023-11-22", "2023-11-25")
    monkeypatch.setenv("APCA_API_SECRET_KEY", "wrong")
    with pytest.raises(UserError, match=r"alpaca refuses \(403\): forbidden"):
        fetched(Alpaca(), ["AA"], "2023-11-22", "2023-11-25")
    monkeypatch.setenv("APCA_API_DATA_URL", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="can't be reached at"):
        fetched(Alpaca(), ["AA"], "2023-11-22", "2023-11-25")
    monkeypatch.setenv("APCA_API_DATA_URL", "http://data.example")
    with pytest.raises(UserError, match="no address that begins with https://: http://data"):
        Alpaca()  # the keys would be sent in clear
    monkeypatch.delenv("APCA_API_KEY_ID")
    with pytest.raises(UserError, match="set APCA_API_KEY_ID"):
        vendor_of("alpaca")


class Futures:
    """A vendor of a user's own: minutes of Chicago."""

    def bars(self, tickers: Sequence[str], _start: str, _end: str, _every: Every) -> Iterator[Bar]:
        for at in ("09 12:00", "10 17:00", "10 17:01", "11 17:00", "11 17:01"):
            time = datetime.fromisoformat(f"2024-03-{at}-05:00")
            yield Bar(time, tickers[0], 9.0, 9.0, 9.0, 9.0, 1.0)


def test_hours_that_begin_the_evening_before_are_an_exchange_s_hours() -> None:
    """Of Monday, the 11th, from 17:00 on Sunday; of Tuesday nothing was asked for."""
    table, outside = fetched(Futures(), ["ES"], "2024-03-11", "2024-03-12", "minute", "CMES")
    assert (table["time"].dt.strftime("%d %H:%M").tolist(), outside) == (
        ["10 17:01", "11 17:00"], 2,
    )  # fmt: skip


def crsp() -> sqlite3.Connection:
    """CRSP's two tables; AA was called OLD, and did not trade on the third day."""
    made = sqlite3.connect(":memory:")
    made.executescript("""
        attach ':memory:' as crsp;
        create table crsp.stocknames (permno int, ticker text, namedt text, nameenddt text);
        insert into crsp.stocknames values (1, 'OLD', '1990-01-01', '2020-01-03'),
            (1, 'AA', '2020-01-06', '2021-01-01'), (2, 'BB', '1990-01-01', '2021-01-01');
        create table crsp.dsf (permno int, date text, openprc real, askhi real, bidlo real,
            prc real, vol real, cfacpr real, cfacshr real);
        insert into crsp.dsf values (1, '2020-01-03', 9, 9, 9, 9, 1, 1, 1),
            (1, '2020-01-06', 20, 24, 18, 22, 100, 2, 2),
            (1, '2020-01-07', 11, 12, 10, 11, 300, 1, 1),
            (1, '2020-01-08', null, 12, 10, -11, 0, 1, 1), (2, '2020-01-08', 5, 5, 5, 5, 7, 1, 1),
            (2, '2020-01-09', 6, 6, 6, 6, 7, 1, 1);
    """)
    return made


def test_crsp_s_days_are_adjusted_and_named_as_they_were(tmp_path: Path) -> None:
    table, _ = fetched(Wrds(crsp, mark="?"), ["AA", "BB"], "2020-01-01", "2020-01-09")
    write_table(table, tmp_path / "bars.csv")
    panel = read_bars(tmp_path / "bars.csv")
    assert [str(each) for each in panel.dates] == ["2020-01-06", "2020-01-07", "2020-01-08"]
    assert panel.close[:, 0].tolist()[:2] == [11.0, 11.0]  # a split of two: 22 and 100 shares
    assert panel.volume[0, 0] == 200.0
    assert panel.member[:, 0].tolist() == [True, True, False]
    with pytest.raises(UserError, match="no minutes"):
        fetched(Wrds(crsp, mark="?"), ["AA"], "2020-01-01", "2020-01-09", "minute")


def test_a_name_that_two_stocks_have_had_is_refused_with_its_date() -> None:
    def reused() -> sqlite3.Connection:
        made = crsp()
        made.execute("insert into crsp.stocknames values (3, 'AA', '2021-01-04', '2022-01-01')")
        made.execute("insert into crsp.dsf values (3, '2021-01-04', 7, 7, 7, 7, 7, 1, 1)")
        return made

    said = "two stocks by the name of AA, permno 1 and, on 2021-01-04, 3"
    with pytest.raises(UserError, match=said):
        fetched(Wrds(reused, mark="?"), ["AA"], "2020-01-01", "2021-02-01")


@pytest.mark.parametrize("column", ["cfacpr", "cfacshr"])
@pytest.mark.parametrize("value", ["null", "0"])
def test_a_bar_without_its_adjustment_is_refused_with_its_date(column: str, value: str) -> None:
    def lacking() -> sqlite3.Connection:
        made = crsp()
        made.execute(f"update crsp.dsf set {column} = {value} where date = '2020-01-07'")
        return made

    with pytest.raises(UserError, match=f"no adjustment of AA on 2020-01-07.*{column}"):
        fetched(Wrds(lacking, mark="?"), ["AA"], "2020-01-01", "2020-01-09")


def test_a_vendor_that_can_t_be_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WRDS_USERNAME", raising=False)
    with pytest.raises(UserError, match="there is no vendor alpac"):
        vendor_of("alpac")
    with pytest.raises(UserError, match="set WRDS_USERNAME"):
        fetched(vendor_of("wrds"), ["AA"], "2020-01-01", "2020-01-09")
    for start, every, said in [
        ("2021-01-01", "day", "are none"), ("soon", "day", "expected a date"),
        ("2020-01-01", "hour", "every is one of day, minute, got 'hour'"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=said):
            fetched(Wrds(crsp), ["AA"], start, "2020-01-09", every)


class Broken:
    """A vendor of a user's with a bug."""

    def bars(self, tickers: Sequence[str], start: str, end: str, every: Every) -> Iterator[Bar]:
        raise KeyError(tickers[0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tests.trading.test_vendors:bar", "tests.trading.test_vendors:bar can't be made: TypeErr"),
        ("tests.trading.test_vendors:Path", "which is no Vendor: it lacks bars"),
        ("tests.trading.test_vendors:Broken", "vendor Broken fails: KeyError: 'AA' (line "),
    ],
)
def test_a_vendor_of_a_user_s_that_fails_is_one_sentence(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [f"vendor={name}", "tickers=AA", "start=2023-11-24", "end=2023-11-25"]
    words = [word for each in sets for word in ("--set", each)]
    assert said in refusal(capsys, "data", "fetch", str(tmp_path / "bars.csv"), *words)

"""Vendors of bars behind one protocol: what they send becomes a file, which is then read and
checked like any other.

They are written by the vendors' published formats, and tested with answers in these formats; none
was ever run against the live service, which takes an account.
"""

from __future__ import annotations

import json
import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple, Protocol, get_args
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from zoneinfo import ZoneInfo

from hpcpod import plugins
from hpcpod.errors import HpcpodError, UserError, in_words, raised_at
from hpcpod.trading.exchanges import exchange, pandas, session_dates
from hpcpod.trading.panel import day_of

Every = Literal["day", "minute"]
Hours = tuple[Sequence[datetime], Sequence[datetime]]
"""Openings and closes of sessions."""
NEW_YORK = ZoneInfo("America/New_York")
TRIES = 5
"""Requests that are refused for their number, or by a server's error, before it is given up."""
PATIENCE = 60.0
"""Seconds to wait for one answer."""


class Bar(NamedTuple):
    """A bar of a stock."""

    time: datetime
    """Its end, in the exchange's time zone; of a day, midnight without a time zone."""
    ticker: str
    open: float
    high: float
    low: float
    close: float
    volume: float


class Vendor(Protocol):
    """A source of bars over the network, or from a database."""

    def bars(self, tickers: Sequence[str], start: str, end: str, every: Every) -> Iterator[Bar]:
        """Bars from ``start`` until before ``end``, adjusted for splits, and for dividends if the
        vendor has it.

        Raises:
            UserError: the vendor refuses, can't be reached, or has no such bars.
        """
        ...


class Alpaca:
    """Alpaca's market data, version 2: days and minutes of US stocks.

    The account's keys are ``APCA_API_KEY_ID`` and ``APCA_API_SECRET_KEY`` of the environment;
    ``APCA_API_DATA_URL`` is another address than theirs, by https unless it is of this machine: the
    keys are in every request.
    """

    def __init__(self, feed: str = "sip", wait: Callable[[float], None] = time.sleep) -> None:
        """``feed``: ``sip`` has all exchanges; ``iex`` a few percent of the volume, without fee.

        Raises:
            UserError: the environment has no keys.
        """
        keys = [os.environ.get(f"APCA_API_{name}") for name in ("KEY_ID", "SECRET_KEY")]
        if None in keys:
            raise UserError("alpaca takes an account: set APCA_API_KEY_ID and APCA_API_SECRET_KEY")
        self._headers = {"APCA-API-KEY-ID": str(keys[0]), "APCA-API-SECRET-KEY": str(keys[1])}
        self._base = os.environ.get("APCA_API_DATA_URL", "https://data.alpaca.markets")
        if not re.match(r"https://|http://(127\.0\.0\.1|localhost)(:\d+)?(/|$)", self._base):
            raise UserError(
                f"APCA_API_DATA_URL is no address that begins with https://: {self._base}"
            )
        self._feed, self._wait = feed, wait

    def bars(self, tickers: Sequence[str], start: str, end: str, every: Every) -> Iterator[Bar]:
        """See ``Vendor``."""
        asked = {
            "symbols": ",".join(tickers), "timeframe": "1Min" if every == "minute" else "1Day",
            "start": start, "end": end, "limit": "10000", "adjustment": "all", "feed": self._feed,
        }  # fmt: skip
        page: str | None = ""
        while page is not None:
            answer = self._answer(asked | ({"page_token": page} if page else {}))
            try:
                page = answer["next_page_token"]
                found = [self._bar(name, each, every) for name, bars in answer["bars"].items()
                         for each in bars]  # fmt: skip
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UserError(f"alpaca's answer is none that is known here: {error!r}") from error
            yield from found

    @staticmethod
    def _bar(ticker: str, each: Mapping[str, Any], every: Every) -> Bar:
        """Their times are those of a bar's beginning."""
        begins = datetime.fromisoformat(str(each["t"]).replace("Z", "+00:00")).astimezone(NEW_YORK)
        at = begins + timedelta(minutes=1)
        if every == "day":
            at = begins.replace(hour=0, minute=0, tzinfo=None)
        return Bar(at, ticker, *(float(each[name]) for name in "ohlcv"))

    def _answer(self, asked: Mapping[str, str]) -> Any:
        url = f"{self._base}/v2/stocks/bars?{urlencode(asked)}"
        for left in reversed(range(TRIES)):
            try:
                with urlopen(Request(url, headers=self._headers), timeout=PATIENCE) as answer:
                    return json.load(answer)
            except HTTPError as error:
                if left and (error.code == 429 or error.code >= 500):
                    self._wait(2.0 ** (TRIES - left))
                    continue
                raise UserError(f"alpaca refuses ({error.code}): {_message(error)}") from error
            except (URLError, OSError, ValueError) as error:
                raise UserError(f"alpaca can't be reached at {self._base}: {error}") from error
        raise AssertionError


def _message(error: HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, LookupError, TypeError, OSError):
        return error.reason


class Wrds:
    """CRSP's daily stock file at WRDS, adjusted for splits alone, with a stock's name at each time:
    delisted ones are in it, without the return of their delisting. A name that two stocks have had
    in the time is refused.

    The user's name is ``WRDS_USERNAME`` of the environment, the password as ``~/.pgpass`` has it.
    """

    QUERY = """
        select d.date, n.ticker, d.permno, d.openprc, d.askhi, d.bidlo, d.prc, d.vol,
            d.cfacpr, d.cfacshr
        from crsp.dsf d join crsp.stocknames n
        on n.permno = d.permno and d.date >= n.namedt and d.date <= n.nameenddt
        where n.ticker in ({marks}) and d.date >= {mark} and d.date < {mark}
        order by d.date, n.ticker, d.permno
    """

    def __init__(self, connect: Callable[[], Any] | None = None, mark: str = "%s") -> None:
        """``connect``: gives a connection by Python's DB-API, ``mark`` its mark of a parameter."""
        self._connect, self._mark = connect or _wrds, mark

    def bars(self, tickers: Sequence[str], start: str, end: str, every: Every) -> Iterator[Bar]:
        """See ``Vendor``; a negative price says that there was no trade: such a bar is left out."""
        if every != "day":
            raise UserError("wrds has days here (CRSP), no minutes: every: day")
        query = self.QUERY.format(marks=", ".join([self._mark] * len(tickers)), mark=self._mark)
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(query, [*tickers, start, end])
            stocks: dict[str, int] = {}
            for day, ticker, permno, opened, high, low, close, volume, price, shares in cursor:
                if stocks.setdefault(str(ticker), permno) != permno:
                    raise UserError(
                        f"wrds has two stocks by the name of {ticker}, permno {stocks[ticker]} and,"
                        f" on {str(day)[:10]}, {permno}: take dates that have one of them"
                    )
                if None in (opened, high, low, close) or min(opened, high, low, close) <= 0:
                    continue
                at = datetime.fromisoformat(str(day)[:10])
                if not price or not shares:
                    raise UserError(
                        f"wrds has no adjustment of {ticker} on {at.date()} (cfacpr {price},"
                        f" cfacshr {shares}): leave it out, or take other dates"
                    )
                first, most, least, last = (
                    float(each) / float(price) for each in (opened, high, low, close)
                )
                traded = float(volume or 0) * float(shares)
                yield Bar(at, str(ticker), first, most, least, last, traded)


def _wrds() -> Any:
    user = os.environ.get("WRDS_USERNAME")
    if user is None:
        raise UserError("wrds takes an account: set WRDS_USERNAME, and its password in ~/.pgpass")
    try:
        import psycopg  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise UserError("wrds needs psycopg: pip install 'hpcpod[wrds]'") from error
    try:
        return psycopg.connect(
            host="wrds-pgdata.wharton.upenn.edu", port=9737, dbname="wrds", user=user,
            sslmode="require",
        )  # fmt: skip
    except psycopg.Error as error:
        raise UserError(f"wrds can't be reached: {str(error).splitlines()[0]}") from error


VENDORS: Mapping[str, Callable[[], Vendor]] = {"alpaca": Alpaca, "wrds": Wrds}


def vendor_of(name: str) -> Vendor:
    """A vendor by its name, or a user's own by its path.

    Raises:
        UserError: there is no such vendor, it lacks its account, or can't be made.
    """
    if ":" in name:
        made: Vendor = plugins.make(Vendor, "vendors", name)
        return made
    if name not in VENDORS:
        known = plugins.suggest(name, list(VENDORS)) or f" (there are {', '.join(VENDORS)})"
        raise UserError(f"there is no vendor {name}{known}")
    return VENDORS[name]()


def fetched(
    vendor: Vendor, tickers: Sequence[str], start: str, end: str, every: str = "day",
    calendar: str | None = "XNYS",
) -> tuple[Any, int]:  # fmt: skip
    """Bars of a vendor as a table that ``files.write_table`` writes, and the number of those that
    were left out since they lie outside of the exchange's hours. Of days, ``calendar`` may be None.

    Raises:
        UserError: an argument can't be, the vendor refuses, or has no bar of a stock.
    """
    pd = pandas()
    if every not in get_args(Every):
        raise UserError(f"every is one of {', '.join(get_args(Every))}, got {every!r}")
    if not tickers or len(set(tickers)) < len(tickers):
        raise UserError("name each ticker once, and at least one")
    first, past = day_of(start), day_of(end)
    if not first < past:
        raise UserError(f"bars from {first} until before {past} are none")
    hours = _hours(calendar, first, past) if every == "minute" else ([], [])
    try:
        rows = list(vendor.bars(tickers, str(first), str(past), every))  # type: ignore[arg-type]
        kept = [*_in_hours(rows, hours)] if every == "minute" else rows
        lacking = sorted(set(tickers) - {bar.ticker for bar in kept})
    except HpcpodError:
        raise
    except Exception as error:  # it may be a user's
        said = f"vendor {type(vendor).__name__} fails: {in_words(error)}{raised_at(error)}"
        raise UserError(said) from error
    if lacking:
        raise UserError(f"there are no bars of {lacking[0]} from {first} until before {past}")
    table = pd.DataFrame(kept, columns=Bar._fields)
    times = pd.to_datetime(table["time"], utc=every == "minute")
    table = table[session_dates(times, calendar) < past]
    return table.sort_values(["time", "ticker"], ignore_index=True), len(rows) - len(kept)


def _hours(calendar: str | None, first: Any, past: Any) -> Hours:
    """The openings and the closes of the sessions around some days, UTC.

    Raises:
        UserError: there is no such calendar.
    """
    if calendar is None:
        raise UserError(
            "minutes outside of the exchange's hours are left out, so every=minute takes its"
            " calendar, such as calendar=XNYS, not null"
        )
    made = exchange(calendar, first, past)
    return list(made.opens), list(made.closes)


def _in_hours(rows: Sequence[Bar], hours: Hours) -> Iterator[Bar]:
    """The bars that end after the opening of a session, and not after its close."""
    opens, closes = hours
    for bar in rows:
        at = bar.time.astimezone(timezone.utc)
        session = bisect_left(closes, at)
        if session < len(closes) and opens[session] < at:
            yield bar

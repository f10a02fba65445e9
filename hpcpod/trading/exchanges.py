"""Exchanges: their calendars, and the session to which a bar belongs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hpcpod.errors import UserError
from hpcpod.plugins import suggest

NANOSECONDS = 10**17
"""Of 1973: a time in whole numbers that is less is a date such as 20210104, or of seconds."""
_OFFSET = r"\d[T ]\d.*?(Z|[+-]\d\d(?::?\d\d)?)$"


def pandas() -> Any:
    """The library of tables, which comes with the extra.

    Raises:
        UserError: it is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UserError("bars need pandas: pip install 'hpcpod[trading]'") from error
    return pandas


def exchange(name: str, first: Any, last: Any) -> Any:
    """The calendar of an exchange, from a week before a day until a week after another: with its
    ``sessions``, ``opens``, ``closes`` and time zone, ``tz``.

    Raises:
        UserError: there is no such calendar, or it does not reach there.
    """
    try:
        import exchange_calendars  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise UserError(
            "a calendar needs exchange_calendars: pip install 'hpcpod[trading]'"
        ) from error
    week = np.timedelta64(7, "D")  # the library wants a range
    try:
        return exchange_calendars.get_calendar(name, start=first - week, end=last + week)
    except exchange_calendars.errors.InvalidCalendarName as error:
        near = suggest(str(name), exchange_calendars.get_calendar_names())
        raise UserError(
            f"there is no calendar '{name}'{near}; name the exchange's, such as XNYS, or null if it"
            " has none"
        ) from error
    except (exchange_calendars.errors.CalendarError, ValueError) as error:
        raise UserError(f"calendar {name}: {str(error).splitlines()[0]}") from error


def session_dates(times: Any, calendar: str | None) -> Any:
    """The date of the session of each bar, datetime64[D].

    It is the bar's own date in the exchange's zone, but where sessions cross midnight, as those of
    futures do, which begin the evening before: there a bar is of the session in which it ends, and
    of its own date if it ends in none.

    Args:
        times: of the ends of bars; all at midnight: they are dates.
        calendar: of the exchange; None: it has none, and dates are those that times have.

    Raises:
        UserError: there is no such calendar.
    """
    codes, ends = times.factorize()  # a time is one of many stocks
    dates = ends.tz_localize(None).normalize()
    if calendar is not None and not _of_days(ends):
        made = _around(ends, calendar)
        dates = ends.tz_convert(made.tz).tz_localize(None).normalize()
        bounds = (each.dt.tz_convert(made.tz).dt.date for each in (made.opens, made.closes))
        if not all((each == made.sessions.date).all() for each in bounds):
            at, inside = _held(ends, made)
            dates = dates.where(~inside, made.sessions[at])
    return dates.values.astype("datetime64[D]")[codes]


def outside(times: Any, calendar: str) -> Any:
    """True for each bar that ends in no session of an exchange; of dates for none.

    Raises:
        UserError: there is no such calendar.
    """
    codes, ends = times.factorize()
    if _of_days(ends):
        return np.zeros(len(times), bool)
    return ~_held(ends, _around(ends, calendar))[1][codes]


def _of_days(ends: Any) -> bool:
    """True for dates, and for times without a zone, which are dates, too."""
    local = ends.tz_localize(None)
    return ends.tz is None or bool((local == local.normalize()).all())


def _around(ends: Any, calendar: str) -> Any:
    """The calendar of an exchange around some times."""
    days = ends.values.astype("datetime64[D]")
    return exchange(calendar, days.min(), days.max())


def _held(ends: Any, made: Any) -> tuple[Any, Any]:
    """The first session that has not closed before each time, and if it has opened by then."""
    opens, closes = (each.dt.tz_localize(None).to_numpy() for each in (made.opens, made.closes))
    at = np.searchsorted(closes, ends.values).clip(max=len(closes) - 1)
    return at, opens[at] <= ends.values


def times_of(given: Any, path: str | Path, timezone: str | None, calendar: str | None) -> Any:
    """The times of a file as datetimes: dates as they are, others in the exchange's zone.

    Args:
        given: a column of the file.
        path: the file's, for messages.
        timezone: of times that name none; without a calendar that in which a day is counted.
        calendar: of the exchange; None: it has none.

    Raises:
        UserError: they can't be read, or it is not known in which zone they are.
    """
    import pandas as pd

    if given.dtype.kind == "i" and len(given) and given.min() < NANOSECONDS:
        raise UserError(
            f"{path}: times such as {given.min()} are whole numbers, too small for nanoseconds"
            " since 1970: write them as 2021-01-04, or with a time of day and a zone"
        )
    offsets, text = _offsets(given, path), given.dtype.kind not in "Mi"
    several = len(offsets) > 1
    try:
        times = pd.to_datetime(given, format="ISO8601" if text else None, utc=several)
    except (ValueError, TypeError) as error:
        odd = pd.to_datetime(given, format="ISO8601" if text else None, utc=True, errors="coerce")
        row = int((odd.isna() & given.notna()).to_numpy().argmax())
        raise UserError(
            f"{path}: row {row + 1}: {given.iloc[row]!r} is no time, as 2021-01-04 or"
            " 2021-01-04 09:31-05:00 is"
        ) from error
    known = times.dropna()
    if not several and (known.dt.normalize() == known).all():
        return times  # dates: one of midnight in UTC would be the day before in New York
    if times.dt.tz is None:
        if timezone is None:
            raise UserError(
                f"{path}: times such as {known.iloc[0]} name no time zone; say which one, as"
                " timezone: America/New_York"
            )
        times = _localized(times, timezone, path)
    if calendar is not None:
        day = known.iloc[0].tz_localize(None).normalize()
        return times.dt.tz_convert(exchange(calendar, day, day).tz)
    if timezone is not None:
        return _in_zone(times.dt.tz_convert, timezone, path)
    if several:
        raise UserError(
            f"{path}: times have the offsets {offsets[0]} and {offsets[1]}: say in which zone a day"
            " is counted, as timezone: America/New_York, or name a calendar"
        )
    return times


def _offsets(given: Any, path: str | Path) -> list[str]:
    """The offsets that times in words have; of a year in New York they are two.

    Raises:
        UserError: one has none, and others have.
    """
    import pandas as pd

    if given.dtype.kind in "Mi":
        return []
    words = pd.Series(given.dropna().unique(), dtype=object).astype(str)
    offsets = words.str.extract(_OFFSET)[0]
    if offsets.notna().any() and offsets.isna().any():
        odd = words[offsets.isna()].iloc[0]
        row = int((given.astype(str) == odd).to_numpy().argmax())
        raise UserError(f"{path}: row {row + 1}: {odd} names no time zone, and other rows do")
    return sorted(offsets.dropna().unique())


def _localized(times: Any, timezone: str, path: str | Path) -> Any:
    """Times of a zone; those of the hours that a clock skips or has twice are none."""
    import pandas as pd

    found = _in_zone(
        lambda zone: times.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT"), timezone, path
    )
    odd = (found.isna() & times.notna()).to_numpy()
    if odd.any():
        row = int(odd.argmax())
        raise UserError(
            f"{path}: row {row + 1}: {pd.Timestamp(times.iloc[row])} is skipped or there twice in"
            f" {timezone}, where clocks change: write times with their offset, as"
            " 2021-03-14 09:31-05:00"
        )
    return found


def _in_zone(convert: Callable[[str], Any], timezone: str, path: str | Path) -> Any:
    try:
        return convert(timezone)
    except Exception as error:  # pytz's and zoneinfo's have no common base
        raise UserError(f"{path}: times are not of {timezone}: {error!r}") from error

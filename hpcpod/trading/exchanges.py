"""Exchanges: their calendars, and the zone in which a bar's date is that of its session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hpcpod.errors import UserError

_OFFSET = r"\d[T ]\d.*?(Z|[+-]\d\d(?::?\d\d)?)$"


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
    except (exchange_calendars.errors.CalendarError, ValueError) as error:
        raise UserError(str(error).splitlines()[0]) from error


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

    offsets, text = _offsets(given, path), given.dtype.kind not in "Mi"
    several = len(offsets) > 1
    try:
        times = pd.to_datetime(given, format="ISO8601" if text else None, utc=several)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: times can't be read: {str(error).splitlines()[0]}") from error
    known = times.dropna()
    if not several and (known.dt.normalize() == known).all():
        return times  # dates: one of midnight in UTC would be the day before in New York
    if times.dt.tz is None:
        if timezone is None:
            raise UserError(
                f"{path}: times such as {known.iloc[0]} name no time zone; say which one, as"
                " timezone: America/New_York"
            )
        times = _in_zone(times.dt.tz_localize, timezone, path)
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


def _in_zone(convert: Callable[[str], Any], timezone: str, path: str | Path) -> Any:
    try:
        return convert(timezone)
    except Exception as error:  # pytz's and zoneinfo's have no common base
        raise UserError(f"{path}: times are not of {timezone}: {error!r}") from error

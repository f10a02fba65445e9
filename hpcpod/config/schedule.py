"""The number of slots wanted at each time of the week: ``{"mon-fri 08:00-18:00": 4}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PART = re.compile(r"(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?")
_HOURS = re.compile(r"(\d{1,2})(?::(\d\d))?-(\d{1,2})(?::(\d\d))?")
_WHOLE_DAY = (0, 24 * 60)


@dataclass(frozen=True)
class Times:
    """A part of the week."""

    days: frozenset[int]
    """Days on which it begins; Monday is 0."""
    begin: int
    """Minutes after midnight."""
    end: int
    """Minutes after midnight, itself excluded; up to ``begin``: on the next day."""

    @classmethod
    def read(cls, text: str) -> Times:
        """The part of the week that ``mon-fri 08:00-18:00``, ``sat,sun`` or ``18-8`` names.

        Raises:
            ValueError: it says nothing that is known.
        """
        words = text.lower().split()
        hours = [word for word in words if _HOURS.fullmatch(word)]
        days = [word for word in words if not _HOURS.fullmatch(word)]
        if not words or len(hours) > 1 or len(days) > 1:
            raise ValueError(_explained(text))
        begin, end = _minutes(hours[0], text) if hours else _WHOLE_DAY
        return cls(_days(days[0], text) if days else frozenset(range(7)), begin, end)

    def __contains__(self, moment: datetime) -> bool:
        minute, today = 60 * moment.hour + moment.minute, moment.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= minute < self.end
        since_midnight = (today - 1) % 7 in self.days and minute < self.end
        return since_midnight or (today in self.days and minute >= self.begin)


def scheduled(schedule: Mapping[str, int], moment: datetime) -> int | None:
    """The value of the first entry that holds at a moment; None if none does."""
    for times, slots in schedule.items():
        if moment in Times.read(times):
            return slots
    return None


def _days(word: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        names = [name for name in match.groups() if name] if match else []
        if not names or any(name not in DAYS for name in names):
            raise ValueError(_explained(text))
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        found.update((first + n) % 7 for n in range((last - first) % 7 + 1))
    return frozenset(found)


def _minutes(word: str, text: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(word)
    assert match is not None
    hour, minute, last_hour, last_minute = (int(group or 0) for group in match.groups())
    begin, end = 60 * hour + minute, 60 * last_hour + last_minute
    if minute > 59 or last_minute > 59 or begin >= _WHOLE_DAY[1] or end > _WHOLE_DAY[1]:
        raise ValueError(_explained(text))
    return begin, end


def _explained(text: str) -> str:
    return (
        f"{text!r} is no time of the week: write such as 'mon-fri 08:00-18:00', 'sat,sun', '18-8'"
    )

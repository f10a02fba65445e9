"""Times of the week, and what is wanted then."""

from __future__ import annotations

from datetime import datetime

import pytest

from hpcpod.config.schedule import Times, scheduled

MONDAY, SATURDAY = 16, 21  # of November 2026


@pytest.mark.parametrize(
    ("times", "day", "hour", "holds"),
    [
        ("mon-fri 08:00-18:00", MONDAY, 8, True), ("mon-fri 08:00-18:00", MONDAY, 18, False),
        ("mon-fri 08:00-18:00", SATURDAY, 9, False), ("sat,sun", SATURDAY, 0, True),
        ("18-8", MONDAY, 19, True), ("18-8", MONDAY, 7, True), ("18-8", MONDAY, 12, False),
        ("fri 20-6", SATURDAY, 5, True), ("fri 20-6", SATURDAY, 7, False),
        ("fri-mon", SATURDAY, 7, True), ("0-24", MONDAY, 23, True),
    ],
)  # fmt: skip
def test_times_of_the_week(times: str, day: int, hour: int, holds: bool) -> None:
    assert (datetime(2026, 11, day, hour) in Times.read(times)) == holds  # noqa: DTZ001


@pytest.mark.parametrize(
    "text", ["", "weekend", "mon-fry", "25-26", "8-30", "mon 8-9 10-11", "8:99-9"]
)
def test_what_is_no_time_of_the_week_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time of the week"):
        Times.read(text)


def test_the_first_entry_that_holds_counts() -> None:
    schedule = {"mon-fri 8-18": 2, "mon": 5}
    assert scheduled(schedule, datetime(2026, 11, MONDAY, 9)) == 2  # noqa: DTZ001
    assert scheduled(schedule, datetime(2026, 11, MONDAY, 19)) == 5  # noqa: DTZ001
    assert scheduled(schedule, datetime(2026, 11, SATURDAY, 9)) is None  # noqa: DTZ001

"""Numbers in the words of a sentence."""

from __future__ import annotations

import time

import pytest

from hpcpod.run.text import duration, interval, listed, many, number, since, span, times


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (60, "1 min"),
        (3569, "59 min"), (3590, "1 h"), (12_000, "3 h 20 min"), (7200, "2 h"),
        (172_700, "47 h 58 min"), (172_800, "2 days"), (200_000, "2 days 8 h"),
        (259_100, "3 days"),
    ],
)  # fmt: skip
def test_a_span_has_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_moment_is_by_the_reader_s_clock() -> None:
    now = time.mktime((2026, 3, 1, 14, 6, 0, 0, 0, -1))
    assert since(now - 180, now) == "since 14:03 (3 min)"
    assert since(now - 200_000, now).startswith("since 2026-02-27 06:32 (2 days")


def test_numbers_have_their_plural() -> None:
    assert (many(1, "slot"), many(0, "slot"), many(2, "slot")) == ("1 slot", "0 slots", "2 slots")
    assert (times(1), times(2)) == ("once", "2 times")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (180, 360, "3 to 6 min"), (50, 130, "50 s to 2 min"), (200, 260, "about 4 min"),
        (12, 14, "about 13 s"), (0, 0, "about 0 s"), (0, 30, "0 to 30 s"),
        (3600, 9000, "1 h to 2 h 30 min"), (10_000, 10_100, "about 2 h 48 min"),
    ],
)  # fmt: skip
def test_a_span_that_is_not_known_has_two_ends_or_is_about_one(
    low: float, high: float, words: str
) -> None:
    assert span(low, high) == words


def test_names_are_listed_as_in_a_sentence() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (475.34, "475.3"), (9.44, "9.4"), (1.0, "1.0"), (0.7384, "0.738"), (-0.5, "-0.5"),
        (0.031, "0.031"), (-0.0001, "0.0"), (-1.02, "-1.0"), (123_456, "1.235e+05"),
        (float("nan"), "nan"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_a_score_is_short_and_a_rate_of_success_can_be_told_from_another(
    value: float, text: str
) -> None:
    assert number(value) == text


def test_an_interval_around_nothing_has_no_negative_zero() -> None:
    assert interval(0.0625, -0.0173, 0.1423) == "0.062 [-0.017, 0.142]"
    assert interval(0.0, -0.0, 0.0) == "0.0 [0.0, 0.0]"
    assert interval(1.96, 0.9821, 2.94) == "2.0 [1.0, 2.9]"  # digits of the mean
    assert interval(0.738, 0.472, 1.004) == "0.738 [0.472, 1.004]"

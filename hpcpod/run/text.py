"""Numbers in the words of a sentence."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

NARROW = 1.6
"""A range whose ends differ by less than this factor is said as one number."""


def duration(seconds: float) -> str:
    """A time span in two units at most: ``3 h 20 min``."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(hours + minutes / 60), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def since(then: float, now: float) -> str:
    """The time of a beginning, by the reader's clock and as a span: ``since 14:03 (3 min)``."""
    form = "%H:%M" if now - then < 43200 else "%Y-%m-%d %H:%M"  # 12 h
    return f"since {time.strftime(form, time.localtime(then))} ({duration(now - then)})"


def many(count: int, name: str) -> str:
    """``1 slot``, ``4 slots``, ``2 copies``."""
    plural = f"{name[:-1]}ies" if name.endswith("py") else f"{name}s"
    return f"{count} {name if count == 1 else plural}"


def times(count: int) -> str:
    """``once``, ``4 times``."""
    return "once" if count == 1 else f"{count} times"


def span(low: float, high: float) -> str:
    """A time span that is not known exactly, in seconds from ``low`` to ``high``: ``3 to 6 min``,
    or ``about 4 min`` where that is as good."""
    first, last = duration(low), duration(high)
    if high <= NARROW * low or first == last:
        low, high = max(low, 1e-3), max(high, 1e-3)  # s
        return f"about {duration(math.sqrt(low * high))}"
    number, unit = first.split(" ", 1)
    return f"{number if last.split(' ', 1)[1:] == [unit] else first} to {last}"


def size(count: float) -> str:
    """Bytes in few characters: ``1.5 TB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def listed(names: Sequence[str]) -> str:
    """``p0001``, ``p0001 and p0002``, ``p0001, p0002 and p0003``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def number(value: float | None, beside: float | None = None) -> str:
    """A score in few characters, as ``475.3``; below 1, where rates of success are, ``0.738``; "-"
    where there is none.

    Args:
        value: the score.
        beside: the number that decides on the digits; None: the score itself.
    """
    if value is None:
        return "-"
    if abs(value) >= 10_000 or value != value:
        return f"{value:.4g}"
    digits = 3 if abs(value if beside is None else beside) < 1 else 1
    return str(round(value, digits) + 0.0)  # no -0.0


def interval(mean: float, low: float, high: float, episodes: int = 2) -> str:
    """A score with its confidence interval; a single number has none."""
    if episodes == 1:
        return number(mean)
    return f"{number(mean)} [{number(low, mean)}, {number(high, mean)}]"

"""Numbers in the words of a sentence."""

from __future__ import annotations

import time


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
    """When something began, by the reader's clock and as a span: ``since 14:03 (3 min)``."""
    form = "%H:%M" if now - then < 43200 else "%Y-%m-%d %H:%M"
    return f"since {time.strftime(form, time.localtime(then))} ({duration(now - then)})"


def many(count: int, name: str) -> str:
    """``1 slot``, ``4 slots``."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def times(count: int) -> str:
    """``once``, ``4 times``."""
    return "once" if count == 1 else f"{count} times"

"""Axes: ranges with round ticks, linear or logarithmic, and numbers in few characters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hpcpod.run.tables import count

ROOM = 0.04
"""Share of an axis that stays free at each end."""
MOST_TICKS = 5.5
MOST = 1e150
"""Values beyond are not drawn: the range of two of them is no number any more."""

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class Axis:
    """A range of values along one side of a figure."""

    label: str
    low: float
    high: float
    log: bool = False
    unit: float = 1.0
    """The size of the unit in which values are said, such as 60 s of a minute."""
    suffix: str = ""
    """The unit's name."""
    choices: tuple[str, ...] = ()
    """Names of the values 0, 1, 2 and so on, where the values are no numbers."""

    def place(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high end; at an end if it is beyond."""
        low, high = self._map(self.low), self._map(self.high)
        place = (self._map(value) - low) / (high - low)
        return min(1.0, max(0.0, place))

    def _map(self, value: float) -> float:
        return math.log(max(value, 1e-300)) if self.log else value

    def ticks(self) -> list[tuple[float, str]]:
        """Round values inside the range, at most six, each with its text."""
        if self.choices:
            return [(float(i), name) for i, name in enumerate(self.choices[:12])]
        if self.log:
            return [(value, number(value)) for value in _decades(self.low, self.high)]
        low, high = self.low / self.unit, self.high / self.unit
        step = nice_step(low, high)
        first = math.ceil(low / step - 1e-9)
        values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(value * self.unit, _tick(value, digits)) for value in values]


def number(value: float | None) -> str:
    """A number in few characters: three or four digits, k, M and G for large ones; "-" for none."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 10_000:
        return ("-" if value < 0 else "") + count(size)
    if size >= 100:
        return f"{value:.1f}".removesuffix(".0")
    if size >= 0.001 or size == 0:
        return f"{value:.3g}"
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(power)}"


def _tick(value: float, digits: int) -> str:
    if abs(value) >= 10_000 or (abs(value) < 1e-4 and value):
        return number(value)
    return f"{value:.{digits}f}" if value else "0"


def nice_step(low: float, high: float, most: float = MOST_TICKS) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts the range into at most ``most`` parts."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5):
        if factor * power >= rough * (1 - 1e-9):
            return factor * power
    return 10 * power


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / MOST_TICKS))
    whole = [10.0**k for k in range(first, last + 1, step) if low <= 10.0**k <= high]
    if len(whole) >= 2:
        return whole
    finer = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
    return [value for value in finer if low <= value <= high] or [low, high]


def axis_of(
    label: str, values: Iterable[float], *, log: bool = False, zero: bool = False
) -> Axis | None:
    """An axis on which all finite values have a place, with some room; None if there are none."""
    found = [value for value in values if abs(value) < MOST and (value > 0 or not log)]
    if not found:
        return None
    low, high = min(found), max(found)
    if log:
        room = (high / low) ** ROOM if high > low else 2.0
        return Axis(label, low / room, high * room, log=True)
    if zero:
        low = min(0.0, low)
    room = (high - low) * ROOM or max(abs(high) * 0.1, 0.5)
    return Axis(label, low if zero and low == 0.0 else low - room, high + room)


def seconds_axis(label: str, seconds: Iterable[float]) -> Axis:
    """An axis of times from 0, in the unit in which the longest has at least two."""
    longest = max([1.0, *(each for each in seconds if abs(each) < MOST)])
    unit, suffix = next(((u, s) for u, s in _UNITS if longest >= 2 * u), _UNITS[-1])
    return Axis(f"{label} [{suffix}]", 0.0, longest * (1 + ROOM / 2), unit=unit, suffix=suffix)

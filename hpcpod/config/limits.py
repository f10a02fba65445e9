"""Limits of numbers, written where a field's type is: ``Annotated[int, AtLeast(1)]``.

The loader checks them value by value, so that one wrong value hides no other; a
configuration built in Python checks them when it is made.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Protocol


class Limit(Protocol):
    """What a number must satisfy; its ``str`` is how the manual says so."""

    def complaint(self, value: float) -> str | None:
        """What is wrong with the value, as the end of a sentence; None if nothing is."""
        ...


@dataclass(frozen=True)
class AtLeast:
    """``value >= least``."""

    least: float
    """Smallest value."""

    def complaint(self, value: float) -> str | None:
        """See ``Limit``."""
        return None if value >= self.least else f"must be {self}, got {value}"

    def __str__(self) -> str:
        return f"at least {self.least}"


@dataclass(frozen=True)
class AtMost:
    """``value <= most``."""

    most: float
    """Largest value."""

    def complaint(self, value: float) -> str | None:
        """See ``Limit``."""
        return None if value <= self.most else f"must be {self}, got {value}"

    def __str__(self) -> str:
        return f"at most {self.most}"


@dataclass(frozen=True)
class Above:
    """``value > bound``."""

    bound: float
    """The bound, itself excluded."""

    def complaint(self, value: float) -> str | None:
        """See ``Limit``."""
        return None if value > self.bound else f"must be {self}, got {value}"

    def __str__(self) -> str:
        return f"above {self.bound}"


@dataclass(frozen=True)
class Between:
    """``low < value < high``."""

    low: float
    """The lower bound, itself excluded."""
    high: float
    """The upper bound, itself excluded."""

    def complaint(self, value: float) -> str | None:
        """See ``Limit``."""
        return None if self.low < value < self.high else f"must be {self}, got {value}"

    def __str__(self) -> str:
        return f"between {self.low} and {self.high}"


Natural = Annotated[int, AtLeast(0)]
Count = Annotated[int, AtLeast(1)]
Positive = Annotated[float, Above(0)]


@cache
def hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, with their limits."""
    return typing.get_type_hints(cls, include_extras=True)


def is_union(kind: Any) -> bool:
    """Whether a type is written ``X | Y``."""
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _limits(kind: Any) -> Iterator[Limit]:
    """The limits written in a type, also in a member of a union."""
    if typing.get_origin(kind) is Annotated:
        yield from kind.__metadata__
    elif is_union(kind):
        for member in typing.get_args(kind):
            yield from _limits(member)


@cache
def _limited(cls: Any) -> tuple[tuple[str, Limit], ...]:
    return tuple((name, limit) for name, kind in hints(cls).items() for limit in _limits(kind))


def check_limits(record: object) -> None:
    """Check a record built in Python: every field that has a value against its limits.

    Raises:
        ValueError: says every limit that is broken.
    """
    cls: Any = type(record)
    complaints = [
        f"{name} {complaint}"
        for name, limit in _limited(cls)
        if (value := getattr(record, name)) is not None
        and (complaint := limit.complaint(value)) is not None
    ]
    if complaints:
        raise ValueError("; ".join(complaints))

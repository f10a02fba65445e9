"""Limits of numbers, written where a field's type is: ``Annotated[int, Limit(least=1)]``.

The loader checks them value by value, so that one wrong value hides no other; a
configuration built in Python checks them when it is made.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any


@dataclass(frozen=True)
class Limit:
    """Bounds of a number; messages and the manual name them by its ``str``."""

    least: float | None = None
    """Smallest value."""
    above: float | None = None
    """Lower bound, itself excluded."""
    most: float | None = None
    """Largest value."""
    below: float | None = None
    """Upper bound, itself excluded."""

    def complaint(self, value: float) -> str | None:
        """The end of a sentence about a value that breaks them, NaN too; None if it does not."""
        fits = (  # NaN compares false: "not below" would take it
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )
        return None if fits else f"must be {self}, got {value}"

    def __str__(self) -> str:
        if self.above is not None and self.below is not None:
            return f"between {self.above} and {self.below}"
        words = {"at least": self.least, "above": self.above, "at most": self.most}
        words["below"] = self.below
        return " and ".join(f"{word} {n}" for word, n in words.items() if n is not None)


Natural = Annotated[int, Limit(least=0)]
Count = Annotated[int, Limit(least=1)]
Positive = Annotated[float, Limit(above=0)]

MANY = 2**17
"""More pods or environments than this are a slip of the pen; making them would take minutes."""
Crowd = Annotated[int, Limit(least=1), Limit(most=MANY)]
Panel = Annotated[int, Limit(least=2), Limit(most=MANY)]


@cache
def hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, with their limits."""
    return typing.get_type_hints(cls, include_extras=True)


def is_union(kind: Any) -> bool:
    """True if a type is written ``X | Y``."""
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


class Limited:
    """A base of dataclasses: one built in Python is checked when it is made.

    Raises:
        ValueError: by its ``__init__``: says every limit that a field's value breaks.
    """

    def __post_init__(self) -> None:
        cls: Any = type(self)
        complaints = [
            f"{name} {complaint}"
            for name, limit in _limited(cls)
            if (value := getattr(self, name)) is not None
            and (complaint := limit.complaint(value)) is not None
        ]
        if complaints:
            raise ValueError("; ".join(complaints))

"""Scalars: their names in a message, and the values that an unquoted YAML word may mean.

YAML's readers disagree about some words: ``3e-4`` is text to PyYAML and a number to others,
``on`` is true or text, ``2:30`` is 150 or text. In a file such a word is refused with advice;
on the command line, where no other reader will see it, it is what is expected there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any, Literal

Trap = Literal["", "exponent", "word", "sexagesimal", "octal"]

_EXPONENT = re.compile(r"([-+]?)(\d[\d_]*)?(?:\.(\d[\d_]*)?)?[eE]([-+]?)(\d+)")


@dataclass(frozen=True)
class Plain:
    """A YAML scalar without quotes, kept as written until it is known what is expected."""

    text: str
    """As written."""
    value: bool | int | float | str
    """The value that the writer most likely means."""
    trap: Trap = ""
    """The reason why readers of YAML disagree about it; empty if they don't."""
    lenient: bool = False
    """It comes from the command line: take it as what is expected."""

    def read(self, wanted: Sequence[str]) -> Any:
        """The value for one of the wanted types (``int``, ``float``, ``bool``, ``str``).

        Raises:
            ValueError: it means different things to different readers; says what to write.
        """
        if self.lenient and self.trap != "sexagesimal":
            return self.value if fits(self.value, wanted) or "str" not in wanted else self.text
        if not self.trap:
            return self.value
        number, word = "float" in wanted or "int" in wanted, "bool" in wanted
        remedies = []
        if self.trap == "word" and word:
            remedies.append(show(self.value))
        elif self.trap == "sexagesimal" and number:
            remedies.append(f"one number without colons, such as {self.value}")
        elif self.trap in ("exponent", "octal") and number:
            remedies.append(_number(self.text, self.value, "float" in wanted))
        # Where a number may stand, a quoted one would be refused later.
        if "str" in wanted and not (self.trap == "exponent" and number):
            remedies.append(f"'{self.text}' in quotes")
        if not remedies:
            return self.value
        raise ValueError(f"{self._misreading()}; write {' or '.join(remedies)}")

    def _misreading(self) -> str:
        if self.trap == "word":
            return f"{self.text} is {show(self.value)} to some readers of YAML, and text to others"
        meaning = {"exponent": "text", "octal": "a number in base 8"}.get(self.trap, self.value)
        return f"{self.text} is {meaning} to many readers of YAML"


def fits(value: object, wanted: Sequence[str]) -> bool:
    """Check that a value is of a wanted type, or a number that is one: 2 is a float, 2.0 an int."""
    if isinstance(value, bool):  # first: Python's True is an int
        return "bool" in wanted
    if isinstance(value, str):
        return "str" in wanted
    if isinstance(value, int):
        return "int" in wanted or "float" in wanted
    return isinstance(value, float) and (
        "float" in wanted or ("int" in wanted and value.is_integer())
    )


def _number(text: str, value: object, fraction: bool) -> str:
    """How to write a number so that every reader of YAML agrees that it is one."""
    match = _EXPONENT.fullmatch(text)
    if match is None or (not fraction and isinstance(value, float) and value.is_integer()):
        return str(int(value)) if isinstance(value, (int, float)) else text
    sign, whole, part, exponent_sign, exponent = match.groups()
    return f"{sign}{whole or 0}.{part or 0}e{exponent_sign or '+'}{exponent}"


def plain(data: object) -> object:
    """Python's own value of a NumPy scalar or array, an enum's member or a path."""
    if isinstance(data, Enum):
        return plain(data.value)
    if isinstance(data, os.PathLike):
        return os.fspath(data)
    return data.tolist() if hasattr(data, "tolist") else data


def advice(data: object, wanted: Sequence[str]) -> str:
    """The advice on a value of the wrong type: a clause, or an empty string."""
    if isinstance(data, str):
        if "bool" in wanted and data.lower() in ("yes", "no", "on", "off", "true", "false"):
            return f"; write {'true' if data.lower() in ('yes', 'on', 'true') else 'false'}"
        try:
            number = float(data)
        except ValueError:
            return ""
        if number.is_integer() if wanted[0] == "int" else wanted[0] == "float" and isfinite(number):
            return f"; write {_number(data, number, 'float' in wanted)}, without quotes"
        return ""
    if wanted[0] == "str" and isinstance(data, (bool, int, float)):
        return f"; put it in quotes: '{show(data)}'"
    if wanted[0] == "bool" and data in (0, 1):
        return f"; write {show(bool(data))}"
    return ""


def show(data: object) -> str:
    """A value as a message names it, in the words of YAML."""
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, Plain):
        return data.text
    if isinstance(data, Mapping):
        return "a mapping"
    if isinstance(data, (list, tuple)):
        return "a list"
    if isinstance(data, float) and not isfinite(data):
        return f".{data}" if data > 0 or data != data else f"-.{-data}"
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."

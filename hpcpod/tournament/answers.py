"""Answers of a user's rules, held against the types of their fields before they are published.

JSON has none of NumPy's values, and whoever reads a board takes no value of another type than its
field's: one of either in a pod or a decision would end every merge, or the board for all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from hpcpod.records.records import Hyperparameters, Verdict, decode, encode
from hpcpod.tournament.allocation import Allocation
from hpcpod.tournament.proposals import Copy, Fresh


def unkept(answer: object) -> str:
    """The reason why a board can't keep a rule's answer, in words; empty if it can, and of what is
    no rule's answer at all."""
    records = (Verdict, Copy, Fresh, Allocation)
    kind: Any = next((each for each in records if isinstance(answer, each)), None)
    name = type(answer).__name__
    if kind is None and isinstance(answer, Mapping):
        kind, name = Hyperparameters, "hyperparameters"
    if kind is None:
        return ""
    try:
        decode(kind, {field: _from_json(field, value) for field, value in encode(answer).items()})
    except TypeError as error:
        return f"the board can't keep its {name}: {error}"
    return ""


def _from_json(field: object, value: object) -> object:
    """A field's value as a file gives it back.

    Raises:
        TypeError: JSON has no such value.
    """
    try:
        return json.loads(json.dumps(value, default=_refuse))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{field}: {error}") from error


def _refuse(value: object) -> NoReturn:
    kind = type(value)  # json's own words call a numpy.bool a bool
    raise TypeError(f"{value!r} is a {kind.__module__}.{kind.__qualname__}, which JSON has not")

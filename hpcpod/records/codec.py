"""Frozen dataclasses as JSON, and back."""

from __future__ import annotations

from typing import Any, TypeVar

from hpcpod.config.decoder import Decoder
from hpcpod.config.decoder import encode as encode

Json = Any
T = TypeVar("T")

_DECODER = Decoder(exact=True)


def decode(cls: type[T], data: Json) -> T:
    """The record that ``encode`` came from.

    Every value is held against its field's type: the file may be another user's.

    Raises:
        TypeError: a field is missing or unknown, or its value is not of its type; says every
            problem, each with its path.
    """
    kind: Any = cls
    record: T = _DECODER.of(kind)(data)
    return record

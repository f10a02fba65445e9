"""Frozen dataclasses as JSON, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

Json = Any
T = TypeVar("T")


def encode(record: Any) -> Json:
    """A record as JSON-able data."""
    kind: Any = type(record)
    fields = _fields(kind)
    if fields is not None:
        return {name: encode(getattr(record, name)) for name in fields}
    if isinstance(record, Mapping):
        return {key: encode(value) for key, value in record.items()}
    if isinstance(record, (tuple, list)):
        return [encode(value) for value in record]
    return record


def decode(cls: type[T], data: Json) -> T:
    """The record that ``encode`` came from.

    Raises:
        TypeError: a field is missing or unknown.
    """
    kind: Any = cls
    record: T = _decoder(kind)(data)
    return record


def _same(data: Json) -> Json:
    return data


@cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """The names of a record's fields; None if the type is no record."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(f.name for f in dataclasses.fields(kind))


@cache
def _decoder(kind: Any) -> Callable[[Json], Any]:
    """A function that turns JSON into a value of this type, built once per type."""
    if dataclasses.is_dataclass(kind):
        return _record_decoder(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        members = [a for a in arguments if a is not type(None)]
        inner = _decoder(members[0]) if len(members) == 1 else _same
        return _same if inner is _same else lambda data: None if data is None else inner(data)
    if origin is tuple:
        item = _decoder(arguments[0])
        return tuple if item is _same else lambda data: tuple(map(item, data))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        value = _decoder(arguments[1])
        return dict if value is _same else lambda data: {k: value(v) for k, v in data.items()}
    return _same


def _record_decoder(cls: Any) -> Callable[[Json], Any]:
    hints = typing.get_type_hints(cls)
    decoders = [(f.name, _decoder(hints[f.name])) for f in dataclasses.fields(cls)]
    plain = {name for name, decoder in decoders if decoder is _same}
    rich = [(name, decoder) for name, decoder in decoders if name not in plain]

    def build(data: Json) -> Any:
        values = dict(data)
        for name, decoder in rich:
            if name in values:
                values[name] = decoder(values[name])
        return cls(**values)

    return build

"""Frozen dataclasses as JSON, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
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

    Every value is held against its field's type: the file may be another user's.

    Raises:
        TypeError: a field is missing or unknown, or its value is not of its type.
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
    if origin is typing.Literal:
        return _literal_decoder(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_decoder(arguments[1])
    return _scalar_decoder((kind,)) if kind in _SCALARS else _same


_SCALARS: Mapping[type, tuple[type, ...]] = {
    bool: (bool,), int: (int,), float: (float, int, bool), str: (str,), type(None): (type(None),),
}  # fmt: skip
"""What JSON has for each type: a number need not be written with a fraction."""

_LARGEST = 2**64
"""Integers are smaller; one of a thousand digits would be no float."""


def _scalar_decoder(kinds: Sequence[type]) -> Callable[[Json], Any]:
    allowed = {found for kind in kinds for found in _SCALARS[kind]}

    def check(data: Json) -> Any:
        if type(data) not in allowed or (type(data) is int and abs(data) >= _LARGEST):
            raise _wrong(data, kinds)
        return data

    return check


def _wrong(data: Json, kinds: Sequence[Any]) -> TypeError:
    text = repr(data) if isinstance(data, (bool, float, str)) else type(data).__name__
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    return TypeError(f"expected {names}, got {text[:60]}")


def _literal_decoder(words: Sequence[Any]) -> Callable[[Json], Any]:
    def check(data: Json) -> Any:
        if data not in words or isinstance(data, bool):
            raise _wrong(data, words)
        return data

    return check


def _union_decoder(members: Sequence[Any]) -> Callable[[Json], Any]:
    if all(member in _SCALARS for member in members):
        return _scalar_decoder(members)
    others = [member for member in members if member is not type(None)]
    if len(others) > 1:
        return _same
    inner, optional = _decoder(others[0]), len(others) < len(members)
    return lambda data: None if data is None and optional else inner(data)


def _tuple_decoder(item: Any) -> Callable[[Json], Any]:
    inner = _decoder(item)

    def build(data: Json) -> Any:
        if type(data) is not list:
            raise _wrong(data, (list,))
        # A board has a hundred thousand returns.
        if inner is _floats and set(map(type, data)) == {float}:
            return tuple(data)
        return tuple(map(inner, data))

    return build


def _mapping_decoder(value: Any) -> Callable[[Json], Any]:
    inner = _decoder(value)

    def build(data: Json) -> Any:
        if type(data) is not dict:
            raise _wrong(data, (dict,))
        return {key: inner(value) for key, value in data.items()}

    return build


def _record_decoder(cls: Any) -> Callable[[Json], Any]:
    hints = typing.get_type_hints(cls)
    decoders = {f.name: _decoder(hints[f.name]) for f in dataclasses.fields(cls)}

    def build(data: Json) -> Any:
        if type(data) is not dict:
            raise _wrong(data, (cls,))
        if unknown := data.keys() - decoders.keys():
            raise TypeError(f"{cls.__name__} has no field {min(unknown)!r}")
        return cls(**{name: decoders[name](value) for name, value in data.items()})

    return build


_floats = _decoder(float)

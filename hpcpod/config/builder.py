"""Strict construction of frozen dataclasses from plain data, by their type hints.

Nothing is guessed and nothing is dropped: an unknown key, a value of another type or a
broken limit is a problem with its path and a remedy, and every problem is found at once.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from hpcpod.config.limits import hints, is_union
from hpcpod.config.scalars import Plain, advice, plain, show
from hpcpod.config.space import RANGES, Choice, Int, Range, Value
from hpcpod.config.synonyms import meant
from hpcpod.plugins import suggest

T = TypeVar("T")

INVALID: Any = object()
"""Stands for a value that has a problem."""

_SCALARS: Mapping[Any, str] = {bool: "bool", int: "int", float: "float", str: "str"}


def build(cls: type[T], data: object, path: str = "") -> tuple[T | None, list[str]]:
    """A ``cls`` made of plain data, and every problem met; None if there are any."""
    builder = Builder()
    value = builder.value(cls, data, path)
    return (None if builder.problems else value), builder.problems


def join(path: str, name: object) -> str:
    """The path of a key below a path."""
    return f"{path}.{name}" if path else str(name)


def at(path: str, text: str) -> str:
    """A problem with its path in front; the root of a configuration has none."""
    return f"{path}: {text}" if path else text


def describe(kind: Any) -> str:
    """A type as messages and the manual name it: ``int, at least 1``, ``float or null``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind == Value:
        return "value or range"
    if origin is Annotated:
        return ", ".join([describe(kind.__origin__), *map(str, kind.__metadata__)])
    if origin is Literal:
        return " or ".join(map(show, arguments))
    if is_union(kind):
        members = [describe(member) for member in arguments]
        return (", or " if any("," in member for member in members) else " or ").join(members)
    if origin is tuple:
        return f"list of ({describe(arguments[0])})"
    if _is_mapping(origin):
        return f"mapping of name to ({describe(arguments[1])})"
    names = {type(None): "null", object: "anything"}
    return names.get(kind) or str(getattr(kind, "__name__", kind))


class Builder:
    """Builds values and collects every problem on the way."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def problem(self, path: str, text: str) -> Any:
        """Note a problem; return ``INVALID``."""
        self.problems.append(at(path, text))
        return INVALID

    def value(self, kind: Any, data: Any, path: str) -> Any:
        """A value of this type, or ``INVALID`` once its problems are noted."""
        origin, arguments, data = typing.get_origin(kind), typing.get_args(kind), plain(data)
        if kind == Value:
            return self._hyperparameter(data, path)
        if origin is Annotated:
            return self._limited(kind, data, path)
        if dataclasses.is_dataclass(kind):
            return self._record(kind, data, path)
        if origin is Literal:
            return self._literal(arguments, data, path)
        if is_union(kind):
            return self._union(arguments, data, path)
        if origin is tuple:
            return self._items(arguments[0], data, path)
        if _is_mapping(origin):
            return self._mapping(arguments[1], data, path)
        if kind in _SCALARS:
            return self._scalar([_SCALARS[kind]], data, path)
        return self._anything(data, path)

    def _record(self, cls: Any, data: Any, path: str) -> Any:
        if isinstance(data, cls):
            return data
        fields = dataclasses.fields(cls)
        names = [field.name for field in fields]
        if not isinstance(data, Mapping):
            hint = "; leave it out for the defaults" if data is None else f" ({', '.join(names)})"
            return self.problem(path, f"expected a mapping, got {show(data)}{hint}")
        for key in data:
            if key not in names:
                near = meant(str(key), names) or f" (known: {', '.join(names)})"
                self.problem(join(path, key), f"unknown key{near}")
        values = {}
        for field in fields:
            if field.name in data:
                where = join(path, field.name)
                values[field.name] = self.value(hints(cls)[field.name], data[field.name], where)
            elif field.default is field.default_factory is dataclasses.MISSING:
                values[field.name] = self.problem(path, f"missing key '{field.name}'")
        if any(value is INVALID for value in values.values()):
            return INVALID
        try:
            return cls(**values)
        except ValueError as error:
            return self.problem(path, str(error))

    def _limited(self, kind: Any, data: Any, path: str) -> Any:
        value = self.value(kind.__origin__, data, path)
        if value is not INVALID:
            for limit in kind.__metadata__:
                complaint = limit.complaint(value)
                if complaint is not None:
                    return self.problem(path, complaint)
        return value

    def _literal(self, options: Sequence[Any], data: Any, path: str) -> Any:
        for option in options:
            wanted = _SCALARS[type(option)]
            try:
                value = data.read([wanted]) if isinstance(data, Plain) else data
            except ValueError as error:
                return self.problem(path, str(error))
            if value == option and isinstance(value, bool) == isinstance(option, bool):
                return option
        if len(options) == 1:
            said = f"this version knows only {show(options[0])}, got {show(data)}"
        else:
            said = f"expected one of {', '.join(map(show, options))}, got {show(data)}"
        return self.problem(path, said + suggest(show(data), [str(option) for option in options]))

    def _union(self, members: Sequence[Any], data: Any, path: str) -> Any:
        others = [member for member in members if member is not type(None)]
        if data is None and len(others) < len(members):
            return None
        if isinstance(data, Mapping):
            fitting = [m for m in others if _is_mapping(typing.get_origin(m))]
        else:
            fitting = [m for m in others if not _is_mapping(typing.get_origin(m))]
        return self.value((fitting or others)[0], data, path)

    def _items(self, kind: Any, data: Any, path: str) -> Any:
        if not isinstance(data, (list, tuple)):
            return self.problem(path, f"expected a list, got {show(data)}")
        items = [self.value(kind, item, f"{path}[{i}]") for i, item in enumerate(data)]
        return INVALID if any(item is INVALID for item in items) else tuple(items)

    def _mapping(self, kind: Any, data: Any, path: str) -> Any:
        if not isinstance(data, Mapping):
            return self.problem(path, f"expected a mapping, got {show(data)}")
        values = {}
        for key, item in ((plain(key), item) for key, item in data.items()):
            if not isinstance(key, str):
                values[key] = self.problem(path, f"a key must be text, got {show(key)}")
            else:
                values[key] = self.value(kind, item, join(path, key))
        return INVALID if any(item is INVALID for item in values.values()) else values

    def _scalar(self, wanted: Sequence[str], data: Any, path: str) -> Any:
        data = plain(data)
        shown = show(data)
        try:
            data = data.read(wanted) if isinstance(data, Plain) else data
        except ValueError as error:
            return self.problem(path, str(error))
        if isinstance(data, float) and not math.isfinite(data):
            return self.problem(path, f"expected a finite number, got {shown}")
        if isinstance(data, int) and abs(data) >= 2**63:
            return self.problem(path, f"expected a number of at most 63 bits, got {shown}")
        if isinstance(data, bool):
            fits = "bool" in wanted
        elif isinstance(data, int):
            fits = "int" in wanted or "float" in wanted
        elif isinstance(data, float):
            fits = "float" in wanted or ("int" in wanted and data.is_integer())
        else:
            fits = isinstance(data, str) and "str" in wanted
        if not fits:
            said = f"expected {' or '.join(wanted)}, got {shown}"
            return self.problem(path, said + advice(data, wanted))
        if wanted == ["int"]:
            return int(data)
        return float(data) if wanted == ["float"] else data

    def _hyperparameter(self, data: Any, path: str) -> Any:
        if isinstance(data, Range):
            return data
        if isinstance(data, (list, tuple)):
            return self.problem(path, "a list is no value: write {choice: [a, b]} to search in it")
        if not isinstance(data, Mapping):
            return self._scalar(["bool", "int", "float", "str"], data, path)
        words = ", ".join(RANGES)
        if len(data) != 1:
            return self.problem(path, f"a range is a mapping with one key (one of {words})")
        [(word, arguments)] = data.items()
        if word not in RANGES:
            near = suggest(str(word), list(RANGES))
            return self.problem(path, f"unknown range '{word}'{near} (known: {words})")
        return self._range(RANGES[word], arguments, join(path, word))

    def _range(self, cls: type[Range], data: Any, path: str) -> Any:
        many, data = cls is Choice, plain(data)
        if not isinstance(data, (list, tuple)) or not (many or len(data) == 2):
            form = "[a, b, ...]" if many else "[low, high]"
            got = f"{len(data)} values" if isinstance(data, (list, tuple)) else show(data)
            return self.problem(path, f"expected {form}, got {got}")
        kinds = ["bool", "int", "float", "str"] if many else ["int" if cls is Int else "float"]
        items = [self._scalar(kinds, item, f"{path}[{i}]") for i, item in enumerate(data)]
        if any(item is INVALID for item in items):
            return INVALID
        make: Any = cls
        try:
            return make(tuple(items)) if many else make(*items)
        except ValueError as error:
            return self.problem(path, str(error))

    def _anything(self, data: Any, path: str) -> Any:
        """Plain data of any shape: the arguments of a wrapper."""
        if isinstance(data, Mapping):
            return self._mapping(object, data, path)
        if isinstance(data, (list, tuple)):
            items = self._items(object, data, path)
            return INVALID if items is INVALID else list(items)
        return None if data is None else self._scalar(["bool", "int", "float", "str"], data, path)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)

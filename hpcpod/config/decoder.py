"""Plain data: frozen dataclasses as mappings and lists, and back by their type hints.

Nothing is guessed and nothing is dropped: an unknown key, a value of another type or a
broken limit is a problem with its path and a remedy, and every problem is found at once.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from hpcpod.config.limits import Limit, hints, is_union
from hpcpod.config.scalars import Plain, advice, fits, plain, show
from hpcpod.config.space import RANGES, Choice, Int, Range, Scalar, Value
from hpcpod.config.synonyms import meant
from hpcpod.plugins import suggest

T = TypeVar("T")
Decode = Callable[[Any], Any]

INVALID: Any = object()
"""Stands for a value that has a problem."""

_JSON: Mapping[Any, tuple[type, ...]] = {
    bool: (bool,), int: (int,), float: (float, int, bool), str: (str,),
}  # fmt: skip
"""Scalar types, and the types that JSON has for each: a float need not have a fraction."""


class Refused(TypeError):
    """Data that is not of its type: each problem is a path below the data, and a sentence."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(at(path, text) for path, text in problems))


def encode(record: Any) -> Any:
    """A record as plain data: mappings, lists, scalars. A range is ``{"uniform": [0, 1]}``."""
    kind: Any = type(record)
    fields = _names(kind)
    if fields is not None:
        if isinstance(record, Range):
            [word] = [word for word, cls in RANGES.items() if type(record) is cls]
            ends = record.values if isinstance(record, Choice) else (record.low, record.high)
            return {word: list(ends)}
        return {key: encode(getattr(record, name)) for key, name in fields.items()}
    if isinstance(record, Mapping):
        return {key: encode(value) for key, value in record.items()}
    if isinstance(record, (tuple, list)):
        return [encode(value) for value in record]
    return record


def build(cls: type[T], data: object, path: str = "") -> tuple[T | None, list[str]]:
    """A ``cls`` made of a user's plain data, and every problem met; None if there are any."""
    problems: list[str] = []
    value = value_at(path, cls, data, problems)
    return (None if problems else value), problems


def value_at(path: str, kind: Any, data: object, problems: list[str]) -> Any:
    """A value of this type from a user's plain data; ``INVALID`` once its problems are noted."""
    try:
        return _LOADER.of(kind)(data)
    except Refused as refused:
        problems += [at(join(path, below), text) for below, text in refused.problems]
        return INVALID


def join(path: str, name: object) -> str:
    """The path of a key below a path, either of which may be empty."""
    below = str(name)
    return path + below if not path or below[:1] in ("", "[") else f"{path}.{below}"


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
    if is_mapping(kind):
        return f"mapping of name to ({describe(arguments[1])})"
    names = {type(None): "null", object: "anything"}
    return names.get(kind) or str(getattr(kind, "__name__", kind))


def is_mapping(kind: Any) -> bool:
    """True if a type is written ``Mapping[str, X]`` or ``dict[str, X]``."""
    origin = typing.get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


@cache
def _names(cls: Any) -> Mapping[str, str] | None:
    """The names of a record's fields by their JSON keys; None if the type is no record.

    They differ where ``key`` in a field's metadata has the name of an earlier version.
    """
    if not dataclasses.is_dataclass(cls):
        return None
    return {field.metadata.get("key", field.name): field.name for field in dataclasses.fields(cls)}


# Libraries were tried in its place, by 169 refusals of the tests. pydantic 2.14 kept 155, in as
# many lines, ranges and words still ours, and takes 0.1 s to import; cattrs 26.2 kept 150, and
# looks at no limits in Annotated.
class Decoder:
    """Functions that turn plain data into values of a type, one per type, each made once.

    Args:
        exact: scalars are JSON that hpcpod wrote: they are checked and stay as they are. Otherwise
            a user wrote them: NumPy's become Python's own, whole floats become integers.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self.of: Callable[[Any], Decode] = cache(self._made)
        """The function for a type; it raises ``Refused``."""

    def _made(self, kind: Any) -> Decode:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind == Value:
            return self._hyperparameter
        if origin is Annotated:
            return self._limited(kind.__origin__, kind.__metadata__)
        if dataclasses.is_dataclass(kind):
            return self._record(kind)
        if origin is Literal:
            return _literal(arguments)
        if is_union(kind):
            return self._union(arguments)
        if origin is tuple:
            return self._items(arguments[0])
        if is_mapping(kind):
            return self._mapping(arguments[1])
        if kind in _JSON:
            return self._scalar([kind])
        return (lambda data: data) if self._exact else self._anything

    def _record(self, cls: Any) -> Decode:
        names, absent = _names(cls) or {}, dataclasses.MISSING
        decoders = {key: self.of(hints(cls)[name]) for key, name in names.items()}
        needed = [
            f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is absent
        ]
        known = ", ".join(decoders)

        def unknown(key: str) -> tuple[str, str]:
            return key, f"unknown key{meant(key, list(decoders)) or f' (known: {known})'}"

        def explained(data: Any) -> Any:
            if isinstance(data, cls):
                return data
            if not isinstance(data, Mapping):
                bare = data is None and not needed
                hint = "; leave it out for the defaults" if bare else f" ({known})"
                raise Refused(("", f"expected a mapping, got {show(data)}{hint}"))
            problems = [unknown(str(key)) for key in data if key not in decoders]
            problems += [("", f"missing key '{name}'") for name in needed if name not in data]
            given = [(name, read, data[name]) for name, read in decoders.items() if name in data]
            values = _each(given, problems)
            try:
                return cls(**{names[key]: value for key, value in values.items()})
            except ValueError as error:
                raise Refused(("", str(error))) from error

        def decode(data: Any) -> Any:
            # Without a word: a board has a hundred thousand values; one of 500 pods takes 50 ms.
            try:
                return cls(**{names[key]: decoders[key](value) for key, value in data.items()})
            except Exception:
                return explained(data)

        return decode

    def _limited(self, kind: Any, limits: Sequence[Any]) -> Decode:
        inner = self.of(kind)

        def decode(data: Any) -> Any:
            value = inner(data)
            for limit in limits:
                if isinstance(limit, Limit) and (complaint := limit.complaint(value)):
                    raise Refused(("", complaint))
            return value

        return decode

    def _union(self, members: Sequence[Any]) -> Decode:
        others = [member for member in members if member is not type(None)]
        optional = len(others) < len(members)
        if all(member in _JSON for member in others):
            single = keyed = self._scalar(others)
        else:
            single, keyed = (
                self.of(next((m for m in others if is_mapping(m) == mapping), others[0]))
                for mapping in (False, True)
            )

        def decode(data: Any) -> Any:
            if data is None and optional:
                return None
            return (keyed if isinstance(data, Mapping) else single)(data)

        return decode

    def _items(self, kind: Any) -> Decode:
        inner, floats = self.of(kind), self._exact and kind is float

        def decode(data: Any) -> Any:
            items = data if type(data) is list else plain(data)
            if not isinstance(items, (list, tuple)):
                raise Refused(("", f"expected a list, got {show(data)}"))
            # A board has a hundred thousand returns.
            if floats and set(map(type, items)) == {float}:
                return tuple(items)
            return tuple(_each((i, inner, item) for i, item in enumerate(items)).values())

        return decode

    def _mapping(self, kind: Any) -> Decode:
        inner = self.of(kind)

        def decode(data: Any) -> Any:
            if not isinstance(data, Mapping):
                raise Refused(("", f"expected a mapping, got {show(data)}"))
            own = data if set(map(type, data)) <= {str} else {plain(k): v for k, v in data.items()}
            wrong = [] if own is data else [key for key in own if not isinstance(key, str)]
            problems = [("", f"a key must be text, got {show(key)}") for key in wrong]
            return _each(((key, inner, item) for key, item in own.items()), problems)

        return decode

    def _scalar(self, kinds: Sequence[Any]) -> Decode:
        wanted = [kind.__name__ for kind in kinds]
        if not self._exact:
            return lambda data: _scalar(data, wanted)
        allowed = {found for kind in kinds for found in _JSON[kind]}

        def check(data: Any) -> Any:
            # Python reads integers of any length from JSON; these are no numbers of ours.
            if type(data) not in allowed or (type(data) is int and abs(data) >= 2**64):
                raise Refused(("", f"expected {' or '.join(wanted)}, got {show(data)[:60]}"))
            return data

        return check

    def _hyperparameter(self, data: Any) -> Any:
        data = plain(data)
        if isinstance(data, Range):
            return data
        if isinstance(data, (list, tuple)):
            raise Refused(("", "a list is no value: write {choice: [a, b]} to search in it"))
        if not isinstance(data, Mapping):
            return self.of(Scalar)(data)
        words = ", ".join(RANGES)
        if len(data) != 1:
            raise Refused(("", f"a range is a mapping with one key (one of {words})"))
        [(word, arguments)] = data.items()
        if word not in RANGES:
            near = suggest(str(word), list(RANGES))
            raise Refused(("", f"unknown range '{word}'{near} (known: {words})"))
        return _each([(word, lambda ends: self._range(RANGES[word], ends), arguments)])[word]

    def _range(self, cls: Any, data: Any) -> Any:
        many, ends = cls is Choice, plain(data)
        if not isinstance(ends, (list, tuple)) or not (many or len(ends) == 2):
            form = "[a, b, ...]" if many else "[low, high]"
            got = f"{len(ends)} values" if isinstance(ends, (list, tuple)) else show(ends)
            raise Refused(("", f"expected {form}, got {got}"))
        items = self._items(Scalar if many else int if cls is Int else float)(ends)
        try:
            return cls(items) if many else cls(*items)
        except ValueError as error:
            raise Refused(("", str(error))) from error

    def _anything(self, data: Any) -> Any:
        """Plain data of any shape: the arguments of a wrapper."""
        data = plain(data)
        if isinstance(data, Mapping):
            return self.of(dict[str, object])(data)
        if isinstance(data, (list, tuple)):
            return list(self.of(tuple[object, ...])(data))
        return None if data is None else self.of(Scalar)(data)


_LOADER = Decoder()
"""For what users write."""


def _each(
    parts: Iterable[tuple[Any, Decode, Any]], problems: Iterable[tuple[str, str]] = ()
) -> dict[Any, Any]:
    """The decoded parts of a whole by their keys or numbers.

    Raises:
        Refused: has the problems given and those of every part.
    """
    values, found = {}, list(problems)
    for step, decode, data in parts:
        try:
            values[step] = decode(data)
        except Refused as refused:
            place = f"[{step}]" if isinstance(step, int) else str(step)
            found += [(join(place, path), text) for path, text in refused.problems]
    if found:
        raise Refused(*found)
    return values


def _literal(options: Sequence[Any]) -> Decode:
    wanted = list(dict.fromkeys(type(option).__name__ for option in options))

    def decode(data: Any) -> Any:
        value = _unquoted(data, wanted)
        for option in options:
            if value == option and isinstance(value, bool) == isinstance(option, bool):
                return option
        if len(options) == 1:
            said = f"this version knows only {show(options[0])}, got {show(data)}"
        else:
            said = f"expected one of {', '.join(map(show, options))}, got {show(data)}"
        near = suggest(show(data), [str(option) for option in options])
        raise Refused(("", said + near))

    return decode


def _scalar(data: Any, wanted: Sequence[str]) -> Any:
    """A scalar that a user wrote, as Python's own value of one of the wanted types."""
    value, shown = _unquoted(data, wanted), show(plain(data))
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused(("", f"expected a finite number, got {shown}"))
    if isinstance(value, int) and abs(value) >= 2**63:
        raise Refused(("", f"expected a number of at most 63 bits, got {shown}"))
    if not fits(value, wanted):
        said = f"expected {' or '.join(wanted)}, got {shown}"
        raise Refused(("", said + advice(value, wanted)))
    if wanted == ["int"]:
        return int(value)
    return float(value) if wanted == ["float"] else value


def _unquoted(data: Any, wanted: Sequence[str]) -> Any:
    """A scalar as its writer meant it, if every reader of YAML takes it so."""
    data = plain(data)
    try:
        return data.read(wanted) if isinstance(data, Plain) else data
    except ValueError as error:
        raise Refused(("", str(error))) from error

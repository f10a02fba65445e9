"""JSON Schema of a configuration: editors complete and check a file by it.

It has the types, the keys and the limits of single values, from the same dataclasses as the
loader. Rules about several fields, about texts and about an agent's numbers are the loader's alone.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from hpcpod import plugins
from hpcpod.config.decoder import encode, is_mapping
from hpcpod.config.limits import Limit, hints, is_union
from hpcpod.config.manual import field_docs
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import RANGES, Scalar, Value
from hpcpod.config.sweep import SweepConfig
from hpcpod.errors import UnusablePlugin

Schema = dict[str, Any]

_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TYPES = {**_SCALARS, type(None): "null"}
_LIMITS = {
    "least": "minimum", "above": "exclusiveMinimum",
    "most": "maximum", "below": "exclusiveMaximum",
}  # fmt: skip
"""JSON Schema's words for the bounds of a ``Limit``."""
_WORDS = {int: ("int",), float: ("uniform", "log_uniform")}
"""Ranges of a type; every type has ``choice`` too."""
_PATH = ":"
"""A pattern of what a path (``my_pkg.mod:MyAgent``) has and no name."""


def json_schema() -> Schema:
    """The schema (draft 7, which editors know) with the hyperparameters of every known agent."""
    agents = {name: _agent(name) for name in plugins.known("agents")}
    schema = _section(RunConfig)
    fields = schema["properties"]
    algorithms = fields["population"]["properties"]["algorithms"]
    share = algorithms["additionalProperties"]
    algorithms |= _named(dict.fromkeys(agents, share), share) | {"minProperties": 1}
    _with_auto(fields)
    fields["cluster"]["properties"]["sbatch"]["additionalProperties"]["type"] = ["string", "null"]
    schema["required"].remove("env")
    named = {"env": {"required": fields["env"].pop("required")}}  # a sweep may have env.id
    others = [{"required": [section]} for section in ("program", "sweep")]
    schema["anyOf"] = [{"required": ["env"], "properties": named}, *others]
    fields["sweep"] = {"description": _text(SweepConfig.__doc__ or ""), **_section(SweepConfig)}
    fields["agents"] |= _named(agents, fields["agents"]["additionalProperties"])
    return {
        # yaml-language-server knows later drafts in part.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A configuration of hpcpod",
        "definitions": _definitions(),
        **schema,
    }


def _with_auto(fields: Schema) -> None:
    """``population: auto``, alone or beside fields, which no dataclass has: it is chosen before."""
    fields["population"] |= {"type": ["object", "string"], "pattern": "^auto$"}
    fields["population"]["properties"]["auto"] = {"const": True}


def _named(known: Mapping[str, Schema], path: Schema) -> Schema:
    """The keywords of a mapping whose keys are known names, or paths."""
    return {
        "properties": dict(known),
        "patternProperties": {_PATH: path},
        "additionalProperties": False,
    }


def _agent(name: str) -> Schema:
    """The hyperparameters of an agent; any where it can't be loaded."""
    try:
        config = plugins.config_of(name)
    except UnusablePlugin:
        return _schema(Mapping[str, Value])
    return _section(config, _hyperparameter)


def _section(cls: Any, schema_of: Any = None) -> Schema:
    """The schema of a dataclass: each field with its description and its default."""
    docs, kinds, required = field_docs(cls), hints(cls), []
    properties: dict[str, Schema] = {}
    for field in dataclasses.fields(cls):
        schema = {"description": _text(docs[field.name])}
        schema |= (schema_of or _schema)(kinds[field.name])
        if field.default is not dataclasses.MISSING:
            schema["default"] = encode(field.default)
        elif field.default_factory is dataclasses.MISSING:
            required.append(field.name)
        properties[field.name] = schema
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def _schema(kind: Any) -> Schema:
    """The schema of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind == Value:
        return _reference("value")
    if origin is Annotated:
        limits = (limit for limit in kind.__metadata__ if isinstance(limit, Limit))
        bounds = (encode(limit).items() for limit in limits)
        keywords = {_LIMITS[name]: n for each in bounds for name, n in each if n is not None}
        return {**_schema(kind.__origin__), **keywords}
    if dataclasses.is_dataclass(kind):
        return _section(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if is_union(kind):
        return _any([_schema(member) for member in arguments])
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if is_mapping(kind):
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    return {"type": _TYPES[kind]} if kind in _TYPES else {}


def _any(schemas: list[Schema]) -> Schema:
    """One schema of several; one with several types where that says the same."""
    plain = [schema for schema in schemas if schema.keys() == {"type"}]
    others = [schema for schema in schemas if schema not in plain]
    types = [schema["type"] for schema in plain]
    if not others:
        return {"type": types}
    # Limits are of numbers alone: null passes them.
    if len(others) == 1 and isinstance(others[0].get("type"), str) and types == ["null"]:
        return {**others[0], "type": [others[0]["type"], "null"]}
    return {"anyOf": schemas}


def _hyperparameter(kind: Any) -> Schema:
    """The schema of an agent's field."""
    # Draft 7 ignores what stands beside a $ref, and so a description, but not beside allOf.
    return {"allOf": [_reference(f"{kind.__name__}_value")]} if kind in _SCALARS else _values(kind)


def _values(kind: Any) -> Schema:
    """The schema of a value of this type, or of a range of such values."""
    single, bare = _schema(kind), kind
    if typing.get_origin(kind) is Annotated:
        bare = kind.__origin__
    ranges = map(_reference, _WORDS.get(bare, ()))
    return {"anyOf": [single, *ranges, _range("choice", single)]}


def _definitions() -> dict[str, Schema]:
    """The schemas of the ranges by their words, and of hyperparameters by their types."""
    items: dict[str, Schema] = {
        "log_uniform": {"type": "number", "exclusiveMinimum": 0},
        "uniform": {"type": "number"}, "int": {"type": "integer"}, "choice": _schema(Scalar),
    }  # fmt: skip
    ranges = {
        word: {"description": _text(cls.__doc__ or ""), **_range(word, items[word])}
        for word, cls in RANGES.items()
    }
    value = {"anyOf": [_schema(Scalar), *map(_reference, RANGES)]}
    return {"value": value, **ranges, **{f"{k.__name__}_value": _values(k) for k in _SCALARS}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _range(word: str, item: Schema) -> Schema:
    most: Schema = {"uniqueItems": True} if word == "choice" else {"maxItems": 2}
    values: Schema = {"type": "array", "items": item, "minItems": 2, **most}
    return {
        "type": "object", "properties": {word: values}, "required": [word],
        "additionalProperties": False,
    }  # fmt: skip


def _text(doc: str) -> str:
    """A docstring as Markdown on one line, as editors show it."""
    return " ".join(doc.replace("``", "`").split())

"""The manual of the configuration: every field, from the schema's own source."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
import typing
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from hpcpod import plugins
from hpcpod.config.decoder import describe, join
from hpcpod.config.limits import hints, is_union
from hpcpod.config.scalars import show
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import RANGES
from hpcpod.config.sweep import SweepConfig
from hpcpod.config.yaml_file import dump
from hpcpod.errors import UnusablePlugin


def field_manual() -> str:
    """Every field of the configuration, and every hyperparameter of the agents that are known:
    its path, type, default and docstring.
    """
    ranges = "\n".join(f"    {cls.__doc__}" for cls in RANGES.values())
    head = "A 'value or range' is a single value, or one of\n"
    text = f"{head}{ranges}\n\n".replace("``", "") + "\n".join(_section(RunConfig, ""))
    sweep = _indented(inspect.cleandoc(SweepConfig.__doc__ or ""))
    text += f"\n\nsweep\n{sweep}\n" + "\n".join(_section(SweepConfig, "sweep"))
    for name in plugins.known("agents"):
        text += "\n\n" + "\n".join(_agent(name))
    return text


def _agent(name: str) -> Iterator[str]:
    """The hyperparameters of an agent, or why there are none."""
    path = f"agents.{name}"
    try:
        config = plugins.config_of(name)
    except UnusablePlugin as error:
        yield f"{path}\n{_indented(str(error))}"
        return
    yield f"{path}\n{_indented(inspect.cleandoc(config.__doc__ or ''))}"
    yield from _section(config, path)


def field_docs(cls: Any) -> dict[str, str]:
    """The docstring under each field of a dataclass; an empty one where there is none."""
    docs = {field.name: "" for field in dataclasses.fields(cls)}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= _own_docs(base)
    return docs


def meanings(agents: Iterable[str]) -> dict[str, str]:
    """The first sentence of the docstring of every field and of the hyperparameters of these
    agents, by path."""
    found = dict(_meanings(RunConfig, ""))
    for name in agents:
        config = plugins.config_of(name)
        found[f"agents.{name}"] = _first_sentence(inspect.cleandoc(config.__doc__ or ""))
        found |= _meanings(config, f"agents.{name}")
    return found


def _meanings(cls: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, text in field_docs(cls).items():
        yield join(path, name), _first_sentence(text)
        kind = hints(cls)[name]
        if (record := _record(kind)) is not None:
            yield from _meanings(record, join(path, name))


def _first_sentence(text: str) -> str:
    """The text up to its first full stop, in one line."""
    return re.split(r"(?<=\.)\s", text.replace("``", ""), maxsplit=1)[0].replace("\n", " ")


def _own_docs(cls: Any) -> dict[str, str]:
    """The docstrings of the fields that a dataclass declares itself."""
    # Python keeps no docstring of a field: only the source has it.
    definition: Any = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    docs: dict[str, str] = {}
    for pair in pairwise(definition.body):
        match pair:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = inspect.cleandoc(text)
    return docs


def _section(cls: Any, path: str) -> Iterator[str]:
    """The fields of a section, then the sections in it."""
    docs, kinds = field_docs(cls), hints(cls)
    fields = dataclasses.fields(cls)
    for field in sorted(fields, key=lambda field: _record(kinds[field.name]) is not None):
        kind, where = kinds[field.name], join(path, field.name)
        text, record = _indented(docs[field.name]), _record(kinds[field.name])
        if record is not None:
            yield f"\n{where}\n{text}"
            yield from _section(record, where)
        else:
            yield f"{where}: {describe(kind)}{_default(field)}\n{text}"


def _record(kind: Any) -> Any:
    """The dataclass of a section, that may be left out too; None of another type."""
    members = typing.get_args(kind) if is_union(kind) else (kind,)
    return next((each for each in members if dataclasses.is_dataclass(each)), None)


def _indented(text: str) -> str:
    return textwrap.indent(text.replace("``", ""), "    ")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return " (required)"
    if isinstance(value, (dict, tuple)):
        return f" = {dump(value if isinstance(value, dict) else list(value)).strip()}"
    return f" = {show(value)}"

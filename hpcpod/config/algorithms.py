"""The search space of each algorithm: the agent's own ``Config`` and the run's ranges, as one.

This is the one place of the configuration that loads the modules of a user's own agents, and with
them torch: at launch, never for ``status``.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from hpcpod.config.decoder import INVALID, describe, value_at
from hpcpod.config.limits import hints
from hpcpod.config.program import PROGRAM
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Choice, Int, Range, Scalar, Value, extremes
from hpcpod.config.synonyms import meant_elsewhere
from hpcpod.errors import ConfigError, UnknownPlugin, in_words
from hpcpod.plugins import config_of


def resolve_algorithms(
    config: RunConfig, *, source: str = "the configuration"
) -> dict[str, AlgorithmSpace]:
    """The space of every algorithm of the population, by name.

    Every single value, both ends of every range and every choice must pass the agent's own
    validation: construct its ``Config``, and see whether it raises.

    Raises:
        ConfigError: says every problem of every algorithm.
    """
    if config.program is not None:
        return {PROGRAM: config.program.space}
    problems: list[str] = []
    spaces = {
        name: _space(name, config.agents.get(name, {}), problems)
        for name in config.population.algorithms
    }
    found = {name: space for name, space in spaces.items() if space is not None}
    if problems:
        raise ConfigError(source, problems)
    return found


def search_space(name: str, *, continuous: bool) -> AlgorithmSpace:
    """An agent's defaults, with the ranges that it declares itself for a search from no knowledge.

    A field of its ``Config`` declares one as ``metadata={"search": ...}``; with ``"actions":
    "continuous"`` beside it, it counts for such actions alone.

    Raises:
        UnknownPlugin: there is no such agent.
    """
    cls: Any = config_of(name)
    declared = {field.name: field.metadata for field in dataclasses.fields(cls)}
    ranges = {
        key: meta["search"]
        for key, meta in declared.items()
        if "search" in meta and (continuous or meta.get("actions") != "continuous")
    }
    defaults = {key: getattr(cls(), key) for key in declared}
    return AlgorithmSpace(name, {**defaults, **ranges}, defaults)


def _space(name: str, given: Mapping[str, Value], problems: list[str]) -> AlgorithmSpace | None:
    path = f"agents.{name}"
    try:
        cls: Any = config_of(name)
    except UnknownPlugin as error:
        problems.append(f"population.algorithms.{name}: {error}")
        return None
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        problems.append(
            f"{path}: the agent {name} has no dataclass 'Config' of its hyperparameters"
        )
        return None
    fields = dataclasses.fields(cls)
    try:
        defaults = {field.name: getattr(cls(), field.name) for field in fields}
        hints(cls)
    except Exception as error:  # an agent of a user's own may raise whatever it likes
        problems.append(f"{path}: the agent's defaults are no configuration: {in_words(error)}")
        return None
    for key, value in defaults.items():
        if not isinstance(value, (bool, int, float, str)):
            problems.append(f"{path}.{key}: the agent's default is no single value: {value!r}")
    values = dict(_typed(cls, given, path, problems))
    _check(cls, defaults, values, path, problems)
    return AlgorithmSpace(
        agent=name,
        values={**defaults, **values},
        defaults=defaults,
        structural=tuple(f.name for f in fields if f.metadata.get("structural")),
        near_one=tuple(f.name for f in fields if f.metadata.get("near_one")),
        initial=tuple(f.name for f in fields if f.metadata.get("initial")),
    )


def _typed(
    cls: Any, given: Mapping[str, Value], path: str, problems: list[str]
) -> Iterator[tuple[str, Value]]:
    """The hyperparameters that are known and of the right type."""
    names = [field.name for field in dataclasses.fields(cls)]
    for name, value in given.items():
        where = f"{path}.{name}"
        if name not in names:
            near = meant_elsewhere(name, names)
            problems.append(f"{where}: unknown hyperparameter{near} (known: {', '.join(names)})")
            continue
        kind = hints(cls)[name]
        typed = _typed_range(kind, value, where, problems)
        if typed is not INVALID:
            yield name, typed


def _typed_range(kind: Any, value: Value, path: str, problems: list[str]) -> Any:
    if isinstance(value, Choice):
        items = [
            value_at(f"{path}.choice[{i}]", kind, item, problems)
            for i, item in enumerate(value.values)
        ]
        return INVALID if any(item is INVALID for item in items) else Choice(tuple(items))
    if not isinstance(value, Range):
        return value_at(path, kind, value, problems)
    plain = kind.__origin__ if typing.get_origin(kind) is Annotated else kind
    if plain is (int if isinstance(value, Int) else float):
        return value
    words = {int: "int or choice", float: "uniform, log_uniform or choice"}
    written = words.get(plain, "choice")
    problems.append(f"{path}: expected {describe(kind)}; its range is written {written}")
    return INVALID


def _check(
    cls: Any,
    defaults: Mapping[str, Scalar],
    values: Mapping[str, Value],
    path: str,
    problems: list[str],
) -> None:
    """Ask the agent's own validation about every value that a pod may be born with.

    Each is tried with the others that were given (the first of a range). What fails there
    and also alone, with the defaults, is to blame itself, unless the complaint is about
    another that was given; else it is how they go together.
    """
    first = {**defaults, **{name: extremes(value)[0] for name, value in values.items()}}
    to_blame, together = False, ""
    for name, value in values.items():
        for sample in extremes(value):
            complaint = _complaint(cls, {**first, name: sample})
            alone = complaint and _complaint(cls, {**defaults, name: sample})
            others = "|".join(re.escape(other) for other in values if other != name)
            if alone and not (others and re.search(rf"\b({others})\b", alone)):
                to_blame = True
                problems.append(f"{path}.{name}: {alone.removeprefix(f'{name} ')}")
            together = together or complaint
    if together and not to_blame:
        problems.append(f"{path}: {together}")


def _complaint(cls: Any, values: Mapping[str, Scalar]) -> str:
    try:
        cls(**values)
    except ValueError as error:
        return str(error)
    except Exception as error:  # an agent of a user's own may raise whatever it likes
        return in_words(error)
    return ""

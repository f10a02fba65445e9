"""The loader: a file, a command line or keyword arguments as a ``RunConfig``, and back.

Every door ends in the same strict construction, and every problem is said at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hpcpod.config.decoder import build, encode, join, value_at
from hpcpod.config.program import with_program
from hpcpod.config.scalars import Plain, show
from hpcpod.config.schema import RunConfig
from hpcpod.config.site import over_site, without_nulls, without_site
from hpcpod.config.space import RANGES
from hpcpod.config.sweep import SweepConfig
from hpcpod.config.yaml_file import NotYaml, dump, parse, read
from hpcpod.errors import ConfigError

Choose = Callable[[dict[str, Any]], dict[str, Any]]
"""Fills in what ``population: auto`` leaves open, in plain data."""
Place = Callable[[dict[str, Any]], dict[str, Any]]
"""Lays a site's file under plain data."""
NO_AUTO = "population: auto is for launch, render and validate; name the algorithms here"
NO_AUTO_PROGRAM = "population: auto chooses for our agents; with a program name its fields"
NO_SWEEP = "sweep: the file is a sweep's, which `hpcpod launch` and `hpcpod validate` take alone"

_KEY = r'(?:"[^"]+"|[^."]+)'
"""A step of the path in an override; in quotes it may have dots, as an agent's path has."""


def load_file(
    path: str | Path,
    overrides: Sequence[str] = (),
    site: str | Path | None = None,
    choose: Choose | None = None,
) -> RunConfig:
    """The configuration in a YAML file, with ``a.b=c`` overrides; later ones win.

    Args:
        path: of the file.
        overrides: ``a.b=c`` each.
        site: a site's file that is laid under it, instead of its own ``cluster.site``.
        choose: what fills in ``population: auto``; None: that is refused.

    Raises:
        ConfigError: says every problem of the file and of the overrides, or of the site's file.
    """
    path = Path(path)
    data, problems = read(path)
    if data is None:
        raise ConfigError(
            str(path), ["the file is empty; it needs at least a name and an env.id", *problems]
        )
    if not isinstance(data, dict):
        raise ConfigError(str(path), ["expected 'key: value' lines", *problems])
    place = partial(over_site, site=site, folder=path.parent)
    return _built(data, overrides, problems, str(path), place, choose)


def load_sweep(
    path: str | Path, overrides: Sequence[str] = (), site: str | Path | None = None
) -> tuple[SweepConfig, dict[str, Any]] | None:
    """The section ``sweep`` of a file, and the rest as ``from_data`` takes it; None if it has none.

    Args:
        path: of the file.
        overrides: ``a.b=c`` each.
        site: a site's file that is laid under it, instead of its own ``cluster.site``.

    Raises:
        ConfigError: says every problem of the section and of the overrides.
    """
    data, problems = read(Path(path))
    if not isinstance(data, dict) or "sweep" not in data:
        return None
    for override in overrides:
        problems += assign(data, override)
    data = over_site(data, site, Path(path).parent)
    section, wrong = build(SweepConfig, data.pop("sweep"), "sweep")
    if section is None or problems:
        raise ConfigError(str(path), problems + wrong)
    return section, data


def from_data(data: dict[str, Any], source: str) -> RunConfig:
    """The configuration in what ``load_sweep`` has read; ``source`` is its name in a message.

    Raises:
        ConfigError: says every problem.
    """
    return _built(data, [], [], source)


def from_words(
    data: Mapping[str, Any] | RunConfig,
    overrides: Sequence[str],
    *,
    source: str,
    site: str | Path | None = None,
    choose: Choose | None = None,
) -> RunConfig:
    """The configuration in plain data, with overrides and the rest as ``load_file`` has. In a
    ``RunConfig`` is its site already, so that no file is read again.

    Raises:
        ConfigError: says every problem.
    """
    place: Place = dict if isinstance(data, RunConfig) else partial(over_site, site=site)
    return _built(encode(data), overrides, [], source, place, choose)


def from_mapping(
    data: Mapping[str, Any] | RunConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    source: str = "the configuration",
) -> RunConfig:
    """The configuration in plain data, or a ``RunConfig`` that was made by hand: it is checked like
    plain data. Numbers may be NumPy's, words members of an enum. No site's file is read.

    Overrides follow the rule of a JSON merge patch: mappings merge, ``None`` takes a key
    away (its default stands again), whatever else replaces. A range is replaced whole.

    Raises:
        ConfigError: says every problem.
    """
    given = merged(encode(data), overrides) if overrides else encode(data)
    config: RunConfig = from_plain(RunConfig, with_program(without_nulls(given)), source)
    return config


def to_mapping(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain data, defaults included: the inverse of ``from_mapping``."""
    mapping: dict[str, Any] = encode(config)
    return mapping


def dump_yaml(config: RunConfig) -> str:
    """The configuration as YAML, defaults included, that ``load_file`` reads back as it was, but
    for ``cluster.site``; see ``without_site``."""
    return dump(without_site(to_mapping(config)))


def from_plain(kind: Any, data: Any, source: str) -> Any:
    """A value of any type of the schema from its plain data, the inverse of ``encode``.

    Raises:
        ConfigError: says every problem.
    """
    problems: list[str] = []
    value = value_at("", kind, data, problems)
    if problems:
        raise ConfigError(source, problems)
    return value


def _built(
    data: dict[str, Any],
    overrides: Sequence[str],
    problems: list[str],
    source: str,
    place: Place = dict,
    choose: Choose | None = None,
) -> RunConfig:
    """What the data says once the overrides are in it; ``problems`` are those met before."""
    if "sweep" in data:
        raise ConfigError(source, [NO_SWEEP])
    for override in overrides:
        problems += assign(data, override)
    data = without_nulls(place(data))
    if data.get("population") == "auto":  # before what Python was given goes below it
        data["population"] = {"auto": True}
    if asks_auto(data):
        if problems or choose is None:
            raise ConfigError(source, problems or [NO_AUTO])
        if data.get("program") is not None:
            raise ConfigError(source, [NO_AUTO_PROGRAM])
        data = choose(data)
    elif misspelt := _no_auto(data.get("population", {})):
        raise ConfigError(source, [*problems, misspelt])
    config, wrong = build(RunConfig, with_program(data))
    if config is None or problems:
        raise ConfigError(source, problems + wrong)
    return config


def asks_auto(data: Mapping[str, Any]) -> bool:
    """True for ``population: auto``, and for ``population: {auto: true, ...}``, which has some
    fields of its own."""
    population = data.get("population")
    if isinstance(population, Mapping):
        asked = population.get("auto")
        return (asked.value if isinstance(asked, Plain) else asked) is True
    return (population.text if isinstance(population, Plain) else population) == "auto"


def _no_auto(population: object) -> str:
    """The problem of a population that asks for ``auto`` in other words; empty: it does not."""
    if isinstance(population, Mapping):
        if "auto" not in population:
            return ""
        asked = f"population.auto: expected true, got {show(population['auto'])}"
        return f"{asked}; leave it out to say all fields yourself"
    words = isinstance(population.value if isinstance(population, Plain) else population, str)
    return f"population: expected auto or a mapping, got {show(population)}" if words else ""


def assign(data: dict[str, Any], override: str) -> list[str]:
    """Put ``a.b=c`` into the data, in place of what stands there; return the problems."""
    path, equals, text = override.partition("=")
    path = path.strip()
    keys = keys_of(path)
    if not equals or keys is None:
        return [f"--set {override}: expected path=value, such as round.env_steps=50000"]
    try:
        value, problems = parse(text, lenient=True)
    except NotYaml as error:
        return [f"--set {override}: {error}"]
    put(data, keys, value)
    return [f"--set {join(path, problem)}" for problem in problems]


def keys_of(path: str) -> list[str] | None:
    """The steps of a field's path, such as ``round.env_steps``; None if it is none."""
    if not re.fullmatch(rf"{_KEY}(\.{_KEY})*", path):
        return None
    return [key.strip('"') for key in re.findall(_KEY, path)]


def put(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Put a value into plain data, in place of what stands there; ``population: auto`` goes on
    beside a field of its own."""
    section = data
    for key in keys[:-1]:
        below = section.get(key)
        if not isinstance(below, dict):
            section[key] = {"auto": True} if (key, below) == ("population", "auto") else {}
        section = section[key]
    section[keys[-1]] = value


def merged(base: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with a patch in it, by the rule of ``from_mapping``."""
    is_range = len(patch) == 1 and next(iter(patch)) in RANGES
    result = dict(base) if isinstance(base, Mapping) and not is_range else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result

"""A run's configuration as its folder keeps it: resolved once, at launch, and never changed."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

from hpcpod import plugins
from hpcpod._version import __version__
from hpcpod.config.decoder import encode
from hpcpod.config.loader import from_mapping, from_plain, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace


@dataclass(frozen=True)
class Resolved:
    """The configuration, and what each algorithm may be born with."""

    config: RunConfig
    algorithms: Mapping[str, AlgorithmSpace]

    def own_code(self) -> list[str]:
        """Names in the configuration that are not built in, as ``env.id: my_pkg.mod:MyEnv``: the
        training process runs them. A word with a colon in it is taken for a path."""
        mapping = to_mapping(self.config)
        places = ("env", "population", "agents", "pod", "metrics")
        sections = {name: mapping[name] for name in places}
        agents = {
            f"population.algorithms.{name}": space.agent for name, space in self.algorithms.items()
        }
        command = [] if self.config.program is None else [" ".join(self.config.program.command)]
        return [
            *(f"program.command: {words}" for words in command),
            *code_in({**sections, **agents}),
        ]

    def own_rules(self) -> list[str]:
        """The part of ``own_code`` that merging runs: what judges reports, gives births
        and says who trains."""
        rules = ("population.updater: ", "population.generator: ", "population.allocator: ")
        return [named for named in self.own_code() if named.startswith(rules)]

    def extended(self, limits: Mapping[str, int | float | None]) -> Resolved:
        """The same with other limits: fields of ``stop``, and no others."""
        changed: dict[str, Any] = dict(limits)
        return replace(self, config=replace(self.config, stop=replace(self.config.stop, **changed)))

    def document(self, known: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The content of ``config.json``, with the versions that resolved it: ``known``, as
        ``versions`` gave them, or as they are."""
        return {
            "config": to_mapping(self.config),
            "algorithms": encode(self.algorithms),
            "versions": versions() if known is None else dict(known),
            "modules": plugins.module_folders(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Resolved:
        """The inverse of ``document``.

        A run's plugins may lie beside its configuration; ``modules`` in the document says where
        they were when it was launched.
        """
        algorithms: dict[str, AlgorithmSpace] = from_plain(
            dict[str, AlgorithmSpace], document["algorithms"], "the run's algorithms"
        )
        return cls(from_mapping(document["config"]), algorithms)


def code_in(data: Mapping[str, Any]) -> list[str]:
    """Names in plain data that are not built in, as ``own_code`` has them."""
    named = [f"{place}: {path}" for place, path in _paths(data, "")]
    env = data.get("env")
    if isinstance(env, Mapping) and env.get("python"):
        named.append(f"env.python: {env['python']}")
    return list(dict.fromkeys(named))


def _paths(data: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text with a colon in plain data, and every such key, with its place."""
    if isinstance(data, str):
        if ":" in data:
            yield place, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            inside = f"{place}.{key}" if place else str(key)
            yield from _paths(key, inside)
            yield from _paths(value, inside)
    elif isinstance(data, (list, tuple)):
        for item in data:
            yield from _paths(item, place)


def versions() -> dict[str, str]:
    """Versions of what decides a run's numbers; a package that is not installed is left out."""
    found = {"python": platform.python_version(), "hpcpod": __version__}
    # MuJoCo's: the same seed and actions lead elsewhere in another version, within a second.
    packages = ("torch", "numpy", "gymnasium", "mujoco", "mujoco-warp", "warp-lang")
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

"""A run's configuration as its folder keeps it: resolved once, at launch, and never changed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from hpcpod import plugins
from hpcpod.config.loading import from_mapping, plain_value, to_mapping, value_from_plain
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace


@dataclass(frozen=True)
class Resolved:
    """The configuration, and what each algorithm may be born with."""

    config: RunConfig
    algorithms: Mapping[str, AlgorithmSpace]

    def document(self) -> dict[str, Any]:
        """What ``config.json`` holds, with the versions that resolved it."""
        return {
            "config": to_mapping(self.config),
            "algorithms": {
                name: {
                    "agent": space.agent,
                    "values": {key: plain_value(value) for key, value in space.values.items()},
                    "defaults": dict(space.defaults),
                    "structural": list(space.structural),
                    "near_one": list(space.near_one),
                }
                for name, space in self.algorithms.items()
            },
            "versions": versions(),
            "modules": plugins.module_folders(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Resolved:
        """The inverse of ``document``; the run's own modules can be imported from now on.

        A run's plugins may lie beside its configuration. Whoever opens the run, in whatever
        folder, finds them where they were when it was launched.
        """
        plugins.look_in(document.get("modules", ()))
        algorithms = {
            name: AlgorithmSpace(
                agent=space["agent"],
                values={key: value_from_plain(value) for key, value in space["values"].items()},
                defaults=dict(space["defaults"]),
                structural=tuple(space["structural"]),
                near_one=tuple(space["near_one"]),
            )
            for name, space in document["algorithms"].items()
        }
        return cls(from_mapping(document["config"]), algorithms)


def versions() -> dict[str, str]:
    """Versions of what decides a run's numbers; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    packages = ("hpcpod", "torch", "numpy", "gymnasium", "mujoco", "mujoco-warp", "warp-lang")
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

"""Environments that gymnasium has registered, as JSON from a process of its own.

Its caller needs no gymnasium. Nothing is made, and no simulator imported.
"""

from __future__ import annotations

import json
import sys

import gymnasium as gym


def families() -> dict[str, list[str]]:
    """Ids by family: the folder of gymnasium's own, the package of others'.

    Left out are the ids of old versions, which only raise an error that says so.
    """
    found: dict[str, list[str]] = {}
    for id, spec in gym.registry.items():
        creator = spec.entry_point
        module = creator.partition(":")[0] if isinstance(creator, str) else creator.__module__
        parts = module.split(".")
        if parts[:2] != ["gymnasium", "envs"]:
            found.setdefault(parts[0], []).append(id)
        elif len(parts) > 2:
            found.setdefault(parts[2], []).append(id)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(families()) + "\n")

"""Finding the parts of hpcpod by name, so that each can be replaced alone.

Built-in parts stand in the same entry points that a user's package would use:
``hpcpod.agents``, ``hpcpod.envs``, ``hpcpod.generators``, ``hpcpod.updaters``,
``hpcpod.evaluators`` and ``hpcpod.launchers``.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from hpcpod.errors import UnknownPlugin


def known(group: str) -> list[str]:
    """The names that entry points give in a group such as ``"agents"``, sorted."""
    return sorted({point.name for point in entry_points(group=f"hpcpod.{group}")})


def suggest(name: str, candidates: list[str]) -> str:
    """A clause that proposes the nearest candidate, or an empty string."""
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def look_in(folders: Iterable[str]) -> None:
    """Find modules in these folders too, after everywhere else."""
    sys.path += [folder for folder in folders if folder not in sys.path]


def resolve(group: str, name: str) -> Any:
    """The object behind a name, or behind a dotted path ``"pkg.mod:Attr"``.

    Raises:
        UnknownPlugin: nothing answers to ``name``, or the path can't be imported.
    """
    if ":" in name:
        return load(name)
    for point in entry_points(group=f"hpcpod.{group}"):
        if point.name == name:
            return load(point.value)
    names = known(group)
    raise UnknownPlugin(
        f"unknown {group[:-1]} '{name}'{suggest(name, names)}"
        f" (known: {', '.join(names) or 'none'}; or a path 'pkg.mod:Attr')"
    )


def load(path: str) -> Any:
    """Import ``"pkg.mod:Attr"``.

    This is also how the torch-free floors reach the floors that import torch:
    by a path resolved when it is needed, never by an import statement.

    Raises:
        UnknownPlugin: the module can't be imported or has no such attribute.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise UnknownPlugin(f"'{path}' is not a path of the form 'pkg.mod:Attr'")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise whatever it likes
        why = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise UnknownPlugin(f"'{path}' can't be imported: {why}") from error
    try:
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise UnknownPlugin(f"'{path}': module {module_name} has no '{attribute}'") from error
    return found

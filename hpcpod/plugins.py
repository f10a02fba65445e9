"""Plugins: the parts of hpcpod by name, so that each can be replaced alone.

Built-in parts stand in the same entry points that a user's package would use:
``hpcpod.agents``, ``hpcpod.envs``, ``hpcpod.generators``, ``hpcpod.updaters``,
``hpcpod.allocators``, ``hpcpod.evaluators``, ``hpcpod.workers``, ``hpcpod.learners``,
``hpcpod.fusions``, ``hpcpod.loggers``, ``hpcpod.streams`` and ``hpcpod.launchers``.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hpcpod.errors import HpcpodError, UnknownPlugin, UnusablePlugin, UserError, in_words

_LOOKED_IN: list[str] = []
"""Folders in which this process finds modules, beside Python's own."""


@functools.cache
def _paths_of(group: str) -> dict[str, str]:
    """Dotted paths by name, as this installation's entry points give them.

    Python reads the entry points of every installed package for each question (2 ms and more, and
    a leaderboard asks several times a second). A name that is missing is looked for once more, so
    that a package which was installed meanwhile is found.
    """
    points = reversed(tuple(entry_points(group=f"hpcpod.{group}")))
    return {point.name: point.value for point in points}  # of two the first, as Python's path goes


def known(group: str) -> list[str]:
    """The names that entry points give in a group such as ``"agents"``, sorted."""
    return sorted(_paths_of(group))


def _path_of(group: str, name: str) -> str:
    """The dotted path behind a name; a path is its own.

    Raises:
        UnknownPlugin: there is none.
    """
    if ":" in name:
        return name
    if name not in _paths_of(group):
        _paths_of.cache_clear()
    if name not in _paths_of(group):
        raise _unknown(group, name)
    return _paths_of(group)[name]


def suggest(name: str, candidates: list[str], likeness: float = 0.5) -> str:
    """A clause that proposes the nearest candidate, or an empty string if none is near."""
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=likeness)
    return f"; did you mean '{close[0]}'?" if close else ""


def look_in(folders: Iterable[str]) -> None:
    """Find modules in these folders too, after everywhere else."""
    new = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    sys.path += new  # at its end: a user's json.py does not take the place of Python's
    _LOOKED_IN.extend(new)


def module_folders() -> list[str]:
    """Folders of a user's modules: the working directory, the script's own folder, and those that
    this process was given."""
    here = [str(Path.cwd()), str(Path(sys.path[0]).absolute())]
    return list(dict.fromkeys([*here, *_LOOKED_IN]))


def find(group: str, name: str) -> None:
    """See that something answers to a name, without importing what does, unless it is a path.

    Raises:
        UnknownPlugin: nothing does.
    """
    path = _path_of(group, name)
    if path == name:
        load(path)


def resolve(group: str, name: str) -> Any:
    """The object behind a name, or behind a dotted path ``"pkg.mod:Attr"``.

    Raises:
        UnknownPlugin: nothing answers to ``name``, or the path can't be imported.
    """
    return load(_path_of(group, name))


def config_of(name: str) -> Any:
    """The class of an agent's hyperparameters, or None. Those of our names need no torch.

    Raises:
        UnknownPlugin: as ``resolve``.
    """
    path = _path_of("agents", name)
    module, _, agent = path.partition(":")
    if path != name and module.startswith("hpcpod.agents."):  # a path may have a typo
        with contextlib.suppress(UnknownPlugin):
            return load(f"hpcpod.agents.configs:{agent}Config")
    return getattr(load(path), "Config", None)


def _unknown(group: str, name: str) -> UnknownPlugin:
    names = known(group)
    return UnknownPlugin(
        f"unknown {group[:-1]} '{name}'{suggest(name, names)}"
        f" (known: {', '.join(names) or 'none'}; or a path 'pkg.mod:Attr')"
    )


def make(kind: type[Any], group: str, name: str, *arguments: Any) -> Any:
    """A part: what is behind its name, called with these arguments.

    Args:
        kind: the protocol that the part must keep; every public member of it must be there.
        group: as for ``resolve``.
        name: as for ``resolve``.
        arguments: what this group's parts are made with.

    Raises:
        UnknownPlugin: nothing answers to ``name``.
        UnusablePlugin: what does can't be called, raises, or gives something else.
        HpcpodError: whatever the part itself raises on purpose.
    """
    part = resolve(group, name)
    if not callable(part):
        raise UnusablePlugin(f"{name} is of type {type(part).__name__}, not a class or function")
    try:
        made = part(*arguments)
        missing = [m for m in vars(kind) if not m.startswith("_") and not hasattr(made, m)]
    except (HpcpodError, MemoryError):  # a sentence already; and no fault of the plugin's
        raise
    except (Exception, SystemExit) as error:  # a user's class may raise whatever it likes
        raise UnusablePlugin(f"{name} can't be made: {in_words(error)}") from error
    if missing:
        raise UnusablePlugin(
            f"{name} gives something of type {type(made).__name__}, which is no {kind.__name__}:"
            f" it lacks {', '.join(missing)}"
        )
    return made


def load(path: str) -> Any:
    """Import ``"pkg.mod:Attr"``, a part that a user or an entry point names.

    Raises:
        UnknownPlugin: the module can't be imported or has no such attribute.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise UnknownPlugin(f"'{path}' is not a path of the form 'pkg.mod:Attr'")
    # The old gym prints at each import that it is old, and imports this for nothing else.
    sys.modules.setdefault("gym_notices", None)  # type: ignore[arg-type]
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may raise whatever it likes
        why = str(error) if isinstance(error, ImportError) else in_words(error)
        raise UnknownPlugin(f"'{path}' can't be imported: {why}") from error
    try:
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise UnknownPlugin(f"'{path}': module {module_name} has no '{attribute}'") from error
    return found


@contextlib.contextmanager
def needing_torch() -> Iterator[None]:
    """Import here what imports torch.

    Raises:
        UserError: torch, or a library that it loads, can't be imported.
    """
    try:
        with _not_collecting():
            yield
    except (ImportError, OSError) as error:  # a CUDA build without its libraries: OSError
        raise UserError(
            f"torch can't be imported by {sys.executable}: {error}; install the build for this"
            " machine, or call this where training runs"
        ) from error


@contextlib.contextmanager
def _not_collecting() -> Iterator[None]:
    """Import without the garbage collector: it takes 0.2 s of torch's 1.1 s, and finds nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _never_collecting() -> Iterator[None]:
    """The same. The collector never looks at what is alive when torch has come.

    That is for processes of ours: what is alive by then are modules, of which nothing is freed. A
    full collection with torch loaded takes 0.15 s: one comes while the rest is imported, two when
    the process ends, more in training.
    """
    loaded = "torch" in sys.modules
    with _not_collecting():
        yield
        if "torch" in sys.modules and not loaded:
            gc.freeze()


def load_early(path: str) -> None:
    """Import what a path names before torch is: some simulators refuse to come after it.

    What can't be imported, or is no path, is left: the call that needs it says why.
    """
    with _never_collecting(), contextlib.suppress(UnknownPlugin):
        load(path)


def import_torch() -> None:
    """Import torch, before anything else does, and hide it from the garbage collector.

    A torch that can't be imported is left: the call that needs it says why.
    """
    with _never_collecting(), contextlib.suppress(ImportError, OSError):
        importlib.import_module("torch")


def end_uncollected() -> None:
    """Have this process end without a last search for garbage: with torch it takes 0.4 s. What a
    user's objects in a cycle of references left open is not flushed then."""
    atexit.register(gc.freeze)

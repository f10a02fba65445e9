"""Completion of the command line in a shell: argcomplete asks the parser itself, and these
completers for the words that no parser knows."""

from __future__ import annotations

import argparse
import dataclasses
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from hpcpod import plugins
from hpcpod.cli.output import say
from hpcpod.cli.run_argument import is_pod
from hpcpod.config.limits import hints
from hpcpod.config.schema import RunConfig
from hpcpod.envs.catalog import BACKENDS
from hpcpod.envs.listing import registered
from hpcpod.orchestrator.snapshot import RunState
from hpcpod.run.run import Run, only_run, open_run, runs_here, runs_home
from hpcpod.run.sweeps.folder import sweeps_here

SHELLS = ("bash", "zsh", "fish")


def completion(options: Namespace) -> int:
    """``hpcpod completion``: the script that a shell sources."""
    from argcomplete.shell_integration import shellcode

    # Without the shell's own defaults: a file's name is no VERB and no RUN.
    script = shellcode(["hpcpod"], use_defaults=False, shell=options.shell)
    say(script.rstrip())
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, which has said by the environment what was typed; it ends this process."""
    from argcomplete import autocomplete
    from argcomplete.completers import SuppressCompleter

    for action in _actions(parser):
        completer = COMPLETERS.get(action.dest)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]
    autocomplete(parser, validator=_harmless, default_completer=SuppressCompleter())


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of all verbs."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _actions(verb)


def _harmless(word: str, prefix: str) -> bool:
    """True if a word goes on from the prefix and is no option: folders' names are others', too."""
    return word.startswith(prefix) and word.isprintable() and not word.startswith("-")


def _runs(prefix: str, parsed_args: Namespace, **about: Any) -> list[str]:
    """Runs by name, by path where one is begun; the only one's pods where a verb takes these."""
    names = [path.name for path in runs_here(runs_home())]
    if parsed_args.verb in ("sweep", "report"):
        swept = [path.name for path in sweeps_here()]
        names = swept if parsed_args.verb == "sweep" else [*names, *swept]
    if parsed_args.verb in ("why", "logs", "lineage", "replay") and len(names) == 1:
        names += _pods_of(only_run())
    return [*names, *(_paths(prefix) if "/" in prefix else ())]


def _pods(parsed_args: Namespace, **about: Any) -> list[str]:
    return _pods_of(open_run(parsed_args.run))


def _pods_of(run: Run | None) -> list[str]:
    return [] if run is None else sorted(filter(is_pod, run.board().pods))


def _paths(prefix: str, suffixes: Sequence[str] = ()) -> Iterator[str]:
    """Folders, and files with one of these endings."""
    head = prefix[: prefix.rfind("/") + 1]
    for path in sorted(Path(head or ".").expanduser().iterdir()):
        if path.name.startswith(".") and not prefix[len(head) :].startswith("."):
            continue
        if path.is_dir():
            yield f"{head}{path.name}/"
        elif path.suffix in suffixes:
            yield head + path.name


def _yaml(prefix: str, **about: Any) -> Iterable[str]:
    return _paths(prefix, (".yaml", ".yml"))


def _policies(prefix: str, **about: Any) -> Iterable[str]:
    return _paths(prefix, (".h5",))


def _folders(prefix: str, **about: Any) -> Iterable[str]:
    return _paths(prefix)


def _envs(prefix: str, parsed_args: Namespace, **about: Any) -> list[str]:
    """Ids of environments; where one is tried, also files of configurations."""
    ids = [id for names in registered().values() for id in names]
    ids += [id for facts in BACKENDS.values() for id in facts.ids]
    return [*ids, *(_yaml(prefix) if parsed_args.verb == "envs" else ())]


def _fields(prefix: str, **about: Any) -> list[str]:
    """``KEY=`` of every field; hyperparameters are an agent's, and agents load torch."""
    return [] if "=" in prefix else [f"{path}=" for path in _field_paths(RunConfig)]


def _field_paths(cls: Any, path: str = "") -> Iterator[str]:
    for name, kind in hints(cls).items():
        if dataclasses.is_dataclass(kind):
            yield from _field_paths(kind, f"{path}{name}.")
        else:
            yield path + name


def _tables(**about: Any) -> list[str]:
    from hpcpod.run.data import TABLES

    return [*TABLES]


def _states(prefix: str, **about: Any) -> list[str]:
    """States, each behind those that stand there already."""
    head = prefix[: prefix.rfind(",") + 1]
    return [head + state for state in get_args(RunState)]


def _known(group: str) -> Callable[..., list[str]]:
    return lambda **about: list(plugins.known(group))


COMPLETERS: dict[str, Callable[..., Iterable[str]]] = {
    "run": _runs, "pod": _pods, "name": _pods, "config": _yaml, "site": _yaml, "file": _yaml,
    "env": _envs, "overrides": _fields, "runs": _folders, "csv": _folders, "to": _policies,
    "save_to": _policies, "state": _states, "tables": _tables, "cluster": _known("launchers"),
    "backend": _known("envs"),
}  # fmt: skip
"""Completers by the argument's ``dest`` in the parser."""

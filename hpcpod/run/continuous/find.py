"""The registry that a person means: by a configuration, a run, or its own name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from hpcpod.config.loader import from_words, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.errors import ConfigError, RunNotFound, UserError
from hpcpod.run import preflight
from hpcpod.run.continuous import cycle
from hpcpod.run.continuous.entries import Plan
from hpcpod.run.continuous.registry import (
    DOCUMENT,
    Registry,
    create,
    home_of,
    open_registry,
    registries_here,
    writable,
)
from hpcpod.run.run import Run, open_run
from hpcpod.storage.os_errors import may_exist


def registry_of(
    word: str, overrides: Sequence[str] = (), home: Path | None = None,
    site: str | Path | None = None,
) -> Registry:  # fmt: skip
    """A registry to go on with; of a configuration or of a finished run it is made.

    Args:
        word: a configuration's file, a registry's folder or name, a run's folder or name.
        overrides: ``a.b=c`` each, of the configuration of the next cycles.
        home: folder that holds runs.
        site: a site's file.

    Raises:
        UserError: there is nothing of that name, or it has no section ``ct``.
    """
    if Path(word).is_file():
        config = preflight.read_config(word, set_options=overrides, site=site)
        cycle.stream_of(config)
        found = _created(config, str(Path(word).absolute()), home)
        if found.config != config or found.cwd != Path.cwd():
            found.configure(config, Path.cwd())
        return _taken_over(found)
    for path in (Path(word), home_of(word, home)):
        if may_exist(path / DOCUMENT):
            return _taken_over(_changed(open_registry(path), overrides))
    try:
        run = open_run(word if home is None or Path(word).exists() else home / word)
    except RunNotFound as error:
        raise RunNotFound(
            f"{error}; a registry of that name is not there either, and no configuration"
        ) from error
    run.folder.owner.require_mine("takes it over")
    own = run.folder.resolved.config
    config = preflight.from_anywhere(from_words(own, overrides, source=run.name))
    cycle.stream_of(config)
    _require_finished(run)
    return _taken_over(_created(config, str(run.path), home))


def _created(config: RunConfig, made_from: str, home: Path | None) -> Registry:
    """The registry of a configuration; one that is made now needs a budget for a round.

    Raises:
        ConfigError: it has none.
    """
    problems = list(preflight.short_budget(config))
    if problems and not may_exist(home_of(config.name, home) / DOCUMENT):
        raise ConfigError(made_from, problems)
    return create(config, made_from, home)


def _taken_over(registry: Registry) -> Registry:
    """A registry that was made from a run, once that is its first version.

    A process may have been killed after it made the registry.

    Raises:
        UserError: the run has not finished.
    """
    made_from = Path(registry.document["made_from"])
    if may_exist(made_from / "config.json") and not registry.plans():
        writable(registry)
        _adopt(registry, open_run(made_from))
    return registry


def _adopt(registry: Registry, run: Run) -> Plan:
    """Plan the first cycle of a registry from a run that has finished.

    Raises:
        UserError: it has not.
    """
    _require_finished(run)
    config = run.folder.resolved.config
    windows = cycle.stream_of(registry.config).adopted()
    plan = Plan(
        1, to_mapping(config), windows, None, f"{run.name} is taken over", time.time(),
        adopted=str(run.path),
    )  # fmt: skip
    return registry.publish_plan(plan)


def _require_finished(run: Run) -> None:
    """See that a run can be taken over.

    Raises:
        UserError: it has not finished.
    """
    if run.board().phase != "finished":
        raise UserError(f"{run.name} has not finished: `hpcpod ct` takes over what is done")


def looked_at(word: str | None) -> Registry:
    """A registry to look at; None: the only one there is.

    Raises:
        UserError: there is none, or there are several.
    """
    if word is not None:
        return open_registry(word)
    found = registries_here()
    if len(found) != 1:
        named = ", ".join(path.name.removesuffix(".ct") for path in found)
        raise UserError(
            f"say which: there are {named}" if found else "there is no registry here: `hpcpod ct"
            " CONFIG` makes one"
        )  # fmt: skip
    return open_registry(found[0])


def _changed(registry: Registry, overrides: Sequence[str]) -> Registry:
    if overrides:
        writable(registry)  # another user's stream is never imported
        own = registry.config
        config = preflight.from_anywhere(from_words(own, overrides, source=registry.name))
        cycle.stream_of(config)
        registry.configure(config)
    return registry

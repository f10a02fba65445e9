"""Before a run is made: reading its configuration, and checking all that can be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loading import from_mapping, load_file
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.errors import ConfigError, UnknownPlugin
from hpcpod.tournament.census import quotas
from hpcpod.tournament.mutation import unmutated

if TYPE_CHECKING:
    from hpcpod.pod.probe import Footprint

Config = str | Path | Mapping[str, Any] | RunConfig


@dataclass(frozen=True)
class Checked:
    """What ``validate`` found out about a configuration without a problem."""

    resolved: Resolved
    quotas: Mapping[str, int]
    """Pods of the first generation, by algorithm."""
    footprints: Mapping[str, Footprint]
    """What one pod of each algorithm keeps on the disk."""
    disk: float
    """Bytes that the run will hold at once, at most, by estimate; 0 without a probe."""


def read_config(
    config: Config,
    cluster: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    set_options: Sequence[str] = (),
) -> RunConfig:
    """A configuration from wherever it is, with overrides merged in.

    Args:
        config: a file's path, a mapping, or a configuration.
        cluster: the launcher, if it is not to be the configuration's.
        overrides: sections and keys to merge in.
        set_options: ``a.b=c`` strings, for a file.

    Raises:
        ConfigError: says every problem.
    """
    changes = dict(overrides or {})
    if isinstance(config, (str, Path)):
        loaded: Mapping[str, Any] | RunConfig = load_file(config, set_options)
    else:
        loaded = config
    read = from_mapping(loaded, changes, source=source_of(config))
    if cluster is not None:
        read = replace(read, cluster=replace(read.cluster, launcher=cluster))
    return read


def source_of(config: Config) -> str:
    """What to call a configuration in a message."""
    return str(config) if isinstance(config, (str, Path)) else "the configuration"


def resolve(
    config: RunConfig, *, source: str = "the configuration", probe: bool = True
) -> Resolved:
    """Check everything that can be checked before anything is made: see ``check``.

    Raises:
        ConfigError: says every problem that was found.
    """
    return check(config, source=source, probe=probe).resolved


def check(config: RunConfig, *, source: str = "the configuration", probe: bool = True) -> Checked:
    """Check everything that can be checked, and estimate what the run needs.

    Args:
        config: the configuration.
        source: what to call it in a message.
        probe: make the environment and each agent once. A login node that can't run the
            simulator may go without.

    Raises:
        ConfigError: says every problem that was found.
    """
    problems: list[str] = []
    for path, group, name in (
        ("cluster.launcher", "launchers", config.cluster.launcher),
        ("population.updater", "updaters", config.population.updater),
        ("population.generator", "generators", config.population.generator),
    ):
        try:
            plugins.resolve(group, name)
        except UnknownPlugin as error:
            problems.append(f"{path}: {error}")
    footprints: Mapping[str, Footprint] = {}
    try:
        resolved = Resolved(config, resolve_algorithms(config))
        if probe:
            footprints = probe_task(resolved)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(source, problems)
    share = quotas(config.population)
    # A pod keeps a core per round of its history, its best and the one it is working on; its
    # replay is shared between them but for the rows that were overwritten in between.
    disk = sum(share[name] * (7 * f.core + 2 * f.replay) for name, f in footprints.items())
    return Checked(resolved, share, footprints, disk)


def probe_task(resolved: Resolved) -> Mapping[str, Footprint]:
    """Make the environment and each agent once; what a pod of each keeps on the disk.

    Raises:
        ConfigError: the environment can't be made, or an agent can't act in it.
    """
    defaults = {name: unmutated(space) for name, space in resolved.algorithms.items()}
    found: Mapping[str, Footprint] = plugins.load("hpcpod.pod.probe:probe")(
        resolved.config, resolved.algorithms, defaults
    )
    return found

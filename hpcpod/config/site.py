"""A site's own file, written once: ``cluster`` and ``resources`` for all runs there.

It lies under a run's configuration: whatever that says itself counts for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcpod.config.cluster import ClusterConfig, ResourcesConfig
from hpcpod.config.decoder import build
from hpcpod.config.scalars import Plain, plain
from hpcpod.config.yaml_file import read
from hpcpod.errors import ConfigError


@dataclass(frozen=True)
class SiteConfig:
    """The sections of a site's file."""

    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """The place where slots run there."""
    resources: ResourcesConfig = field(default_factory=ResourcesConfig)
    """The resources of a pod there."""


class SiteOfEnvironment(str):
    """The file that ``$HPCPOD_SITE`` names: it is not laid under a configuration whose
    ``cluster.site`` is null."""


def over_site(
    data: Mapping[str, Any], site: str | Path | None = None, folder: Path | None = None
) -> dict[str, Any]:
    """A configuration's plain data with a site's file under it.

    Args:
        data: the configuration.
        site: the site's file, instead of the one in ``cluster.site``.
        folder: that of the configuration's file; ``cluster.site`` is relative to it.

    Raises:
        ConfigError: says every problem of the site's file, by its own name.
    """
    named = _named(data)
    if isinstance(site, SiteOfEnvironment) and _takes_none(data):
        return dict(data)
    if site is not None:
        path = expanded(site)
    elif named is not None:
        path = (folder or Path()) / expanded(named)
    else:
        return dict(data)
    merged = _over(_sections(path)[1], data)
    if isinstance(merged["cluster"], dict):
        # A run that was taken over in another folder asked for it there.
        merged["cluster"]["site"] = str(path.absolute())
    return merged


def without_nulls(data: Any) -> Any:
    """A configuration's plain data, or a site's, without the options of ``sbatch`` that are null: a
    configuration's takes the site's away, if there is one."""
    cluster: Any = data.get("cluster") if isinstance(data, Mapping) else None
    sbatch = cluster.get("sbatch") if isinstance(cluster, Mapping) else None
    if not isinstance(sbatch, Mapping):
        return data
    kept = {option: text for option, text in sbatch.items() if text is not None}
    return {**data, "cluster": {**cluster, "sbatch": kept}}


def without_site(data: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's plain data, in which its site is, without the file's name: read again, it
    would bring back what was taken away from it."""
    cluster: Any = data.get("cluster", {})
    return {**data, "cluster": {**cluster, "site": None}} if "site" in cluster else dict(data)


def expanded(path: str | Path) -> Path:
    """A path with a home folder in the place of its ``~``; of an unknown user it stays, and names
    nothing that is there."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # pathlib's, for an unknown user: it was a traceback of launch
        return Path(path)


def read_site(path: Path) -> SiteConfig:
    """The content of a site's file.

    Raises:
        ConfigError: says every problem.
    """
    return _sections(path)[0]


def _sections(path: Path) -> tuple[SiteConfig, dict[str, Any]]:
    """A site's file, and its sections as plain data."""
    data, problems = read(path)
    data = without_nulls(data)
    if not isinstance(data, dict):
        raise ConfigError(str(path), ["expected 'cluster:' and 'resources:' sections", *problems])
    site, wrong = build(SiteConfig, data)
    problems += wrong
    if site is not None and site.cluster.site is not None:
        problems.append("cluster.site: a site's file can't lie over another one; leave it out")
    if problems or site is None:
        raise ConfigError(str(path), problems)
    return site, {"cluster": {}, **data}


def _takes_none(data: Mapping[str, Any]) -> bool:
    cluster = data.get("cluster")
    return isinstance(cluster, Mapping) and cluster.get("site", "") is None


def _named(data: Mapping[str, Any]) -> str | None:
    cluster = data.get("cluster")
    name = cluster.get("site") if isinstance(cluster, Mapping) else None
    text = name.text if isinstance(name, Plain) else plain(name)
    return text if isinstance(text, str) else None


def _over(base: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge, but for a schedule, in which the order counts; whatever else ``data`` has
    stands, null too."""
    merged = dict(base)
    for key, value in data.items():
        below = merged.get(key)
        both = key != "schedule" and isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _over(dict(below or {}), value) if both else value
    return merged

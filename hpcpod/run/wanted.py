"""The number of slots that a run should have at once, and who says so."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.launchers.base import Launcher
from hpcpod.launchers.factory import launcher_of
from hpcpod.orchestrator.sizing import Bounds
from hpcpod.orchestrator.snapshot import bounds_of, bounds_seen
from hpcpod.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Target:
    """Slots wanted at once."""

    slots: int | None
    """None where it can't be told: another machine runs them."""
    why: str
    """Who says so, or why it can't be told, in a clause."""
    most: int = 1_000_000
    """Most that may be asked for."""


def launcher_here(folder: RunFolder) -> Launcher | str:
    """The run's launcher, or why there can be none on this machine for this user."""
    try:
        return launcher_of(folder)
    except UserError as error:
        return str(error)


def target_of(folder: RunFolder, launcher: Launcher | str) -> Target:
    """The slots that a run should have, for those who act for it."""
    if isinstance(launcher, str):
        return Target(None, launcher)
    return _target(folder.resolved.config, bounds_of(folder, launcher))


def target_seen(folder: RunFolder) -> Target:
    """The slots that a run should have, for those who only look."""
    try:
        return _target(folder.resolved.config, bounds_seen(folder))
    except UserError as error:
        return Target(None, str(error))


def _target(config: RunConfig, bounds: Bounds) -> Target:
    return Target(bounds.target, _why(config, bounds), bounds.most)


def _why(config: RunConfig, bounds: Bounds) -> str:
    if bounds.scale is not None:
        return "a person asked for as many (`hpcpod scale`)"
    if bounds.scheduled is not None:
        return "cluster.schedule says so for this hour"
    if bounds.target == config.cluster.slots:
        return "cluster.slots says so"
    if config.cluster.launcher == "local" and bounds.target < config.population.pods.max:
        return "as many fit on this machine"
    return "as many as population.pods.max has work for"

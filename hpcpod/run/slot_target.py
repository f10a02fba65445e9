"""The number of slots that a run should have at once, and who says so."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.config.schema import RunConfig
from hpcpod.launchers.base import Launcher
from hpcpod.orchestrator.slot_count import Bounds
from hpcpod.orchestrator.snapshot import bounds_of
from hpcpod.storage.run_folder import RunFolder


@dataclass(frozen=True)
class SlotTarget:
    """Slots wanted at once: the answer of ``Run.target``."""

    slots: int | None
    """None where it can't be told: another machine runs them."""
    why: str
    """The source of that number, or the reason why it is unknown, in a clause."""
    most: int = 1_000_000
    """Most that may be asked for."""


def target_of(folder: RunFolder, launcher: Launcher | str) -> SlotTarget:
    """The slots that a run should have, for those who act for it."""
    if isinstance(launcher, str):
        return SlotTarget(None, launcher)
    bounds = bounds_of(folder, launcher)
    return SlotTarget(bounds.target, wanted_by(folder.resolved.config, bounds), bounds.most)


def wanted_by(config: RunConfig, bounds: Bounds) -> str:
    """The clause that says who wants as many slots."""
    if bounds.scale is not None:
        return "a person asked for as many (`hpcpod scale`)"
    if bounds.scheduled is not None:
        return "cluster.schedule says so for this hour"
    if bounds.target == config.cluster.slots:
        return "cluster.slots says so"
    if config.cluster.launcher == "local" and bounds.target < config.population.pods.max:
        return "as many fit on this machine"
    return "as many as population.pods.max has work for"

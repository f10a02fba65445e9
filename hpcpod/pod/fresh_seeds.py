"""The fresh seeds on which a checkpoint is scored. No torch."""

from __future__ import annotations

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Rescore


def fresh_seeds(order: Rescore, config: RunConfig) -> tuple[tuple[int | str, ...], int]:
    """The name of the set of seeds on which an order is scored, and its episodes."""
    if order.purpose == "snapshot":  # common seeds: a curve of their differences has less noise
        return (config.seed, order.purpose, 0), config.snapshots.episodes
    number = order.number if order.purpose in ("confirm", "look") else order.set
    return (config.seed, order.purpose, number), order.episodes or config.stop.confirm_episodes

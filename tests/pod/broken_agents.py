"""PPO with an ``update`` that does not do what it should."""

from __future__ import annotations

from typing import Any

from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.ppo import PPO


class Raises(PPO):
    """Never learns."""

    def update(self, buffer: Buffer) -> Metrics:
        raise ValueError(f"no way with {buffer.rows} rows")


class Nothing(PPO):
    """Learns, and tells nothing of it."""

    def update(self, buffer: Any) -> Metrics:
        super().update(buffer)
        return None  # type: ignore[return-value]


class Words(PPO):
    """Tells a word where a number is expected."""

    def update(self, buffer: Any) -> Metrics:
        return {**super().update(buffer), "mood": "good"}  # type: ignore[dict-item]

"""Extensions: larger limits for a run that had finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Extension:
    """Larger limits for a finished run, as a person has asked for them."""

    number: int
    """Of the run's extensions, from 1."""
    time: float
    """Unix time at which it was asked for, in seconds."""
    limits: Mapping[str, int | float | None]
    """New values by their fields of ``stop``; null: no such limit any more."""
    before: Mapping[str, int | float | None]
    """The values of these fields until then."""

    @property
    def words(self) -> str:
        """The limits that changed: ``stop.env_steps 4096 -> 8192``."""
        changes = [
            f"stop.{name} {_shown(self.before.get(name))} -> {_shown(value)}"
            for name, value in self.limits.items()
        ]
        return ", ".join(changes) or "no limit changed"


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.15g}"

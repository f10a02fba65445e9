"""The outcome of a cell: a row of a sweep's table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from hpcpod.run.run import Run
from hpcpod.run.status import Status
from hpcpod.run.sweeps.design import Cell, Factor, label

Fate = Literal["waiting", "running", "paused", "interrupted", "finished", "failed", "lost"]


@dataclass(frozen=True)
class Outcome:
    """A cell's run at one moment."""

    fate: Fate
    """``waiting``: it has not begun. ``interrupted``: it has, and no process runs it now.
    ``finished``: by its budget or its target. ``failed``: it was given up, or ended by a person
    before its budget. ``lost``: its folder can't be read."""
    reason: str = ""
    """The reason of its end, ``stop_reason`` of a run, or of its failure."""
    score: float | None = None
    """Mean return of the policy that it delivers, or that leads so far."""
    low: float | None = None
    """Lower end of the 95 % interval of ``score``, over episodes of this one policy."""
    high: float | None = None
    episodes: int = 0
    """Episodes of ``score``."""
    fresh: bool = False
    """True if they have seeds of which no evaluation before them knew."""
    pod: str = ""
    algorithm: str = ""
    env_steps: int = 0
    """Environment steps trained, over all pods."""
    seconds: float = 0.0
    """Wall time since its first slot began to work."""
    core_hours: float = 0.0

    @property
    def ended(self) -> bool:
        """True if nothing more happens to it."""
        return self.fate in ("finished", "failed")


COLUMNS = tuple(field.name for field in fields(Outcome))


def outcome_of(run: Run) -> Outcome:
    """The outcome of a cell's run, as it is now."""
    status = run.status()
    best = status.best
    scored: Mapping[str, Any] = {} if best is None else {
        "score": best.mean, "low": best.low, "high": best.high, "episodes": best.episodes,
        "fresh": best.fresh, "pod": best.pod, "algorithm": best.algorithm,
    }  # fmt: skip
    return Outcome(
        fate=_fate(status),
        reason=status.failure or status.stop_reason or "",
        env_steps=status.env_steps,
        seconds=round(60 * status.minutes, 1),
        core_hours=round(status.core_hours, 5),
        **scored,
    )


def _fate(status: Status) -> Fate:
    if status.state == "finished":
        return "failed" if status.stop_reason in ("user", "failed") else "finished"
    if status.state in ("paused", "draining"):
        return "paused"
    if status.state in ("running", "finals"):
        return "running"
    if status.rounds == 0 and status.minutes == 0:
        return "waiting"
    return "interrupted" if status.state == "interrupted" else "running"


def tidy(
    factors: Sequence[Factor], rows: Iterable[tuple[Cell, Outcome]]
) -> tuple[list[str], list[list[Any]]]:
    """The names of a tidy table's columns and its rows: a run each, of a cell and a seed.

    A level that is no single value, or null, is its YAML in one line; one of no use is None.
    """
    heads = ["run", "cell", "seed", *(factor.path for factor in factors), *COLUMNS]
    return heads, [
        [cell.name, cell.number, cell.replicate, *(_single(cell, f) for f in factors),
         *(getattr(outcome, name) for name in COLUMNS)]
        for cell, outcome in rows
    ]  # fmt: skip


def _single(cell: Cell, factor: Factor) -> Any:
    if factor.path not in cell.levels:
        return None
    level = cell.levels[factor.path]
    return label(level) if level is None or isinstance(level, (dict, list)) else level

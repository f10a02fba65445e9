"""What a run has used so far, and when its limits will end it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hpcpod.config.schema import StopConfig
from hpcpod.records import Board
from hpcpod.storage.slots import Life, element


@dataclass(frozen=True)
class Forecast:
    """The limit of ``stop`` that comes first."""

    limit: Literal["minutes", "env_steps", "rounds"]
    """Its name in the configuration."""
    seconds: float
    """From now. ``minutes`` is sure to come then; the others at the present rate."""


@dataclass(frozen=True)
class Used:
    """What all slots of a run had, over all their lives."""

    slot_seconds: float
    gpu_hours: float
    core_hours: float
    requeues: int
    """How often the scheduler has started jobs of slots again."""


def used(lives: Mapping[str, Life]) -> Used:
    """Add up the lives of a run's slots; several in one job were requeued with it, once."""
    restarts: dict[str, int] = {}
    for slot, life in lives.items():
        job = element(slot)
        restarts[job] = max(restarts.get(job, 0), life.restarts)
    return Used(
        slot_seconds=sum(life.seconds for life in lives.values()),
        gpu_hours=sum(life.gpus * life.seconds for life in lives.values()) / 3600,
        core_hours=sum(life.cpus * life.seconds for life in lives.values()) / 3600,
        requeues=sum(restarts.values()),
    )


def forecast(
    board: Board, stop: StopConfig, *, slot_seconds: float, at_work: int, now: float
) -> Forecast | None:
    """When the first of the limits ends the run, if its target does not.

    Args:
        board: as it is now.
        stop: the limits.
        slot_seconds: that slots were alive so far: with what they brought, the rate of one slot.
        at_work: slots that work now.
        now: Unix time in seconds.

    Returns:
        None if no limit can be told: there is none, or no round was reported yet.
    """
    if board.phase != "running":
        return None
    found: list[Forecast] = []
    if stop.minutes is not None and board.began is not None:
        found.append(Forecast("minutes", max(0.0, board.began + 60 * stop.minutes - now)))
    if at_work > 0 and slot_seconds > 0:
        if stop.env_steps is not None and board.env_steps > 0:
            rate = at_work * board.env_steps / slot_seconds
            found.append(Forecast("env_steps", max(0, stop.env_steps - board.env_steps) / rate))
        if stop.rounds is not None and board.rounds > 0:
            each = slot_seconds / board.rounds
            found.append(Forecast("rounds", each * _turns(board, stop.rounds, at_work)))
    return min(found, key=lambda limit: limit.seconds, default=None)


def _turns(board: Board, rounds: int, at_work: int) -> float:
    """Rounds that are still to be trained one after another, whoever trains them."""
    left = [rounds - pod.birth.round + 1 for pod in board.living if pod.birth is not None]
    # A pod's rounds follow each other: slots that are more than the pods help nobody.
    return max(sum(left) / at_work, max(left)) if left else 0.0

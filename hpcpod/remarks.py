"""Remarks: what follows from a configuration that is valid but seldom meant, and what to change.

Each is one sentence. ``launch`` and ``validate`` show them; nothing is refused for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace

if TYPE_CHECKING:
    from hpcpod.pod.probe import Look


def remarks(
    config: RunConfig, algorithms: Mapping[str, AlgorithmSpace], look: Look | None
) -> Iterator[str]:
    """All remarks on a run.

    Args:
        config: of the run, without a problem.
        algorithms: its agents.
        look: at its task; None if it was not tried.
    """
    if look is not None and look.deterministic:
        yield _deterministic(config)


def _deterministic(config: RunConfig) -> str:
    return (
        f"env.id: every episode of {config.env.id} begins and goes on alike, whatever its seed, so"
        " the returns of a panel are equal, the smallest difference between two pods decides, and"
        " no score says how the policy does elsewhere; give it random starts, or set"
        " round.episodes to 2 and stop.confirm_episodes to 2 to save the time"
    )

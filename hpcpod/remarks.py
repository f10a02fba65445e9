"""Remarks: what follows from a configuration that is valid but seldom meant, and what to change.

Each is one sentence. ``launch`` and ``validate`` show them; nothing is refused for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.tournament.census import quotas

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
    yield from _no_evolution(config)


def _no_evolution(config: RunConfig) -> Iterator[str]:
    """A population in which no pod may ever give way to a copy."""
    population = config.population
    if population.pods.max == 1:  # one agent is meant
        return
    if config.round.episodes < 4:
        yield (
            f"round.episodes: a panel of {config.round.episodes} episodes has none left to compare"
            " pods on, so none is ever replaced by a copy; take 4 or more, better 32"
        )
    places = quotas(population)
    spare = {name: places[name] - max(1, population.controls) for name in places}
    if all(left <= 0 for left in spare.values()):
        each = "one of its algorithm" if population.controls < 2 else "a control"
        enough = sum(max(1, population.controls) + 1 for _ in places)
        yield (
            f"population.pods.max: each of the {population.pods.max} pods is {each}, and such a pod"
            " is never replaced by a copy, so hyperparameters are never searched beyond the first"
            f" draws; take {enough} or more, or fewer population.controls"
        )


def _deterministic(config: RunConfig) -> str:
    return (
        f"env.id: every episode of {config.env.id} begins and goes on alike, whatever its seed, so"
        " the returns of a panel are equal, the smallest difference between two pods decides, and"
        " no score says how the policy does elsewhere; give it random starts, or set"
        " round.episodes to 4 and stop.confirm_episodes to 2 to save the time"
    )

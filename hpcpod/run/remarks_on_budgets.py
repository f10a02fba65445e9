"""Remarks on budgets in which a population can't do what it is for, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.config.schema import RunConfig

STARTING = 10.0
"""Seconds that an agent's process may take on a slow machine before it takes its first step."""


def too_few_rounds(config: RunConfig) -> Iterator[str]:
    """A run that ends before a copy could be made that has something to train."""
    minutes = config.stop.minutes
    if minutes is not None and 60 * minutes < STARTING and config.program is None:
        yield (
            f"stop.minutes: an agent may take {STARTING:g} s to start, so a run of"
            f" {60 * minutes:.2g} s may end before any pod has finished a round; give it more"
        )
    pods, length, limit = config.population.pods.max, config.round.env_steps, config.stop.env_steps
    if limit is not None and limit < pods * length:
        yield (
            f"stop.env_steps: {limit} steps are less than a round of {length} for each of the"
            f" {pods} pods (population.pods.max), so some may never be scored; give {pods * length}"
            " or more, take fewer pods, or make rounds shorter (round.env_steps)"
        )
        return
    total, warmup = steps_of_a_pod(config), config.population.warmup_rounds
    if total is None or total > (warmup + 1) * length:
        return
    yield (
        f"population.warmup_rounds: a pod trains {total / length:.3g} rounds in"
        f" this run, and none gives way to a copy in the first {warmup} or after the last, so"
        f" hyperparameters are never searched beyond the first draws; train for {warmup + 2} rounds"
        " or more (stop.rounds, stop.env_steps), or make them shorter (round.env_steps)"
    )


def unlimited_axis(config: RunConfig) -> Iterator[str]:
    """A budget that is counted on an axis on which nothing ends the run."""
    axis = config.population.budget
    limit = {"seconds": "minutes", "env_steps": "env_steps", None: ""}[axis]
    if limit and getattr(config.stop, limit) is None:
        yield (
            f"population.budget: {axis} are counted, and nothing ends the run by them, so no pod"
            " has a first share of them before it may rest or give way to a copy; give"
            f" stop.{limit}, or leave population.budget out"
        )


def steps_of_a_pod(config: RunConfig) -> int | None:
    """Steps that a pod trains from the first round to the last, its ancestors' included, if all
    are equally fast; None where no number of steps limits the run."""
    stop, limits, pods = config.stop, [], config.population.pods.max
    if stop.rounds is not None:
        limits.append(stop.rounds * config.round.env_steps)
    if stop.env_steps is not None:
        # Rounds are finished: a run of several pods ends after the one that passes the limit.
        least = config.round.env_steps if pods > 1 else 0
        limits.append(max(least, stop.env_steps // pods))
    return min(limits, default=None)

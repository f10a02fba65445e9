"""Remarks on generators that can't work as meant with a configuration, and on fields that its rules
do not look at, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.config.schema import PopulationConfig, RunConfig, SnapshotsConfig
from hpcpod.tournament.budget import followed
from hpcpod.tournament.cohorts import quotas
from hpcpod.tournament.generators.multi_frequency import FREQUENCIES, LEAST

FINALISTS = 12
"""Trainings of the last two configurations of ``replicates``, six each."""
RESTART = 9
"""Rounds of a run in which ``restarts`` may begin anew: five to see that the best grows no more,
four that must be left."""


def on_generator(config: RunConfig, rounds: float | None) -> Iterator[str]:
    """Remarks on a run's generator.

    Args:
        config: of the run.
        rounds: that a pod trains in it, if all are equally fast; None if no steps limit it.
    """
    stop, generator = config.stop, config.population.generator
    if config.population.allocator == "replicates":
        yield from _on_replicates(config)
    if generator == "random_search":
        if not followed(config):
            beside = "stop.env_steps or stop.minutes" if stop.rounds is not None else "stop.rounds"
            yield (
                "population.generator: random_search tries one draw in each of the"
                f" {config.population.pods.max} places, since no pod is done before the run ends;"
                f" give it {beside}, too, to try more"
            )
    elif generator == "multi_frequency":
        few = [n for n, places in quotas(config.population).items() if places < 2 * LEAST]
        if few:
            yield (
                f"population.generator: multi_frequency needs {2 * LEAST} pods of an"
                f" algorithm for two sub-populations, so all of {', '.join(few)} select every"
                " round; take more pods (population.pods.max), or gentle_truncation"
            )
        elif rounds is not None and rounds <= FREQUENCIES[1]:
            yield (
                f"population.generator: a pod trains {rounds:.3g} rounds in this run, so the second"
                f" sub-population of multi_frequency, which selects every {FREQUENCIES[1]}, never"
                " does; take gentle_truncation, or shorter rounds (round.env_steps)"
            )
    elif generator == "restarts" and rounds is not None and rounds < RESTART:
        yield (
            f"population.generator: a pod trains {rounds:.3g} rounds in this run, and restarts"
            f" begins nothing anew before {RESTART}; take gentle_truncation, or shorter rounds"
            " (round.env_steps)"
        )


def idle_fields(config: RunConfig) -> Iterator[str]:
    """Remarks on fields that nothing looks at, beside others."""
    by, default, episodes = config.population, PopulationConfig(), config.snapshots.episodes
    if by.cost != default.cost and by.updater in ("paired_gate", "welch_gate", "ranking"):
        yield (
            f"population.cost: {by.updater} compares returns alone, so {by.cost} counts for"
            " nothing; take updater: pareto, or leave cost out"
        )
    if by.second_looks > 0 and by.updater in ("welch_gate", "ranking"):
        yield (
            f"population.second_looks: {by.updater} makes no test on common seeds, so none is made"
            " again; take updater: paired_gate, or leave second_looks out"
        )
    for name in ("quorum", "deadline"):
        if by.scheme != "generational" and getattr(by, name) != getattr(default, name):
            yield (
                f"population.{name}: in a {by.scheme} no pod waits for another, so it counts for"
                f" nothing; take scheme: generational, or leave {name} out"
            )
    if config.snapshots.seconds is None and episodes != SnapshotsConfig().episodes:
        yield (
            f"snapshots.episodes: without snapshots.seconds no policy is kept to play {episodes}"
            " episodes; give it, or leave episodes out"
        )


def _on_replicates(config: RunConfig) -> Iterator[str]:
    """An allocator of configurations that has none to compare, or no budget to compare them by."""
    generator = config.population.generator
    if not followed(config):
        yield (
            "population.allocator: replicates trains nothing again where stop.rounds does not end a"
            " pod's training or no budget limits the run, and is halving then; give it stop.rounds,"
            " and stop.env_steps or stop.minutes"
        )
    elif ":" not in generator and generator != "random_search":
        yield (
            "population.allocator: replicates compares configurations by trainings from scratch,"
            f" which copies are not, and {generator} makes copies; write generator: random_search"
        )
    if followed(config) and config.population.pods.max < FINALISTS:
        yield (
            f"population.allocator: replicates trains two configurations with six seeds at last,"
            f" and {config.population.pods.max} places have no room for all: a training whose"
            f" place is taken counts no longer; take {FINALISTS} pods (population.pods.max) or more"
        )

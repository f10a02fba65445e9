"""Sets of fresh seeds: no seed of one is in a panel of a round of the run, nor in another set.

A set is known by its purpose and number, from which each process hashes its seeds. Of 2^31 seeds
two sets of 256 share one in one of 30,000 cases: so numbers are passed over until none is shared.
The panels of a fusion's guard are left out: their number follows from the agent, which no board
knows.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from itertools import chain

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Board, seed_of
from hpcpod.tournament.second_looks import PANELS


def unused_set(board: Board, config: RunConfig, purpose: str, episodes: int) -> int:
    """The number of the next set of a purpose whose seeds no evaluation of the run has had.

    Args:
        board: knows the rounds, the attempts and the sets so far.
        config: of the run.
        purpose: of the orders that will play it.
        episodes: of the set.
    """
    number = board.finals.sets.get(purpose, 0)
    while _shared(set(seeds(config.seed, purpose, number, episodes)), board, config):
        number += 1
    return number


def _shared(drawn: Container[int], board: Board, config: RunConfig) -> bool:
    """True if any evaluation of the run has, or will have, one of these seeds."""
    taken = chain(_panels(board, config), _sets(board, config))
    return any(
        seed in drawn
        for origin, purpose, number, size in taken
        for seed in seeds(origin, purpose, number, size)
    )


def seeds(seed: int, purpose: str, number: int, episodes: int) -> Iterator[int]:
    """The seeds of a set, in order: those of ``envs.vec_env.random_seeds``."""
    return (seed_of(seed, purpose, number, place) for place in range(episodes))


def _sets(board: Board, config: RunConfig) -> Iterator[tuple[int, str, int, int]]:
    """The sets of fresh seeds that a run has opened, or will: the run's seed, purpose, number,
    episodes."""
    stop = config.stop
    for number in range(1, max(board.confirmations, board.attempts) + 1):
        yield config.seed, "confirm", number, stop.confirm_episodes
    if config.snapshots.seconds is not None:
        yield config.seed, "snapshot", 0, config.snapshots.episodes
    for purpose, used in board.finals.sets.items():
        for number in range(used):
            # A set 0 may be that of an older version, which had no batches.
            batch = purpose == "final" and number > 0
            yield config.seed, purpose, number, stop.batch if batch else stop.confirm_episodes


def _panels(board: Board, config: RunConfig) -> Iterator[tuple[int, str, int, int]]:
    """The panels of all rounds that any pod may have trained, by what its books say, and those of
    other runs on which heirs were scored."""
    origins = {(p.origin.seed, p.origin.round) for p in board.pods.values() if p.origin is not None}
    for seed, number in sorted(origins):
        yield seed, "panel", number, config.round.episodes
    last = max(
        (
            pod.parent_round + math.ceil(pod.trained_steps / config.round.env_steps) + 1
            for pod in board.pods.values()
        ),
        default=0,
    )
    for number in range(last + 1):
        yield config.seed, "panel", number, config.round.episodes
        if config.population.second_looks > 0:
            yield config.seed, "look", number, PANELS * config.round.episodes

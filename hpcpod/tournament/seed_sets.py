"""Sets of fresh seeds: no seed of one is in any panel of the run, nor in another set.

A set is known by its purpose and number, from which each process hashes its seeds. Of 2^31 seeds
two sets of 256 share one in one of 30,000 cases: so numbers are passed over until none is shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Board, seed_of


def unused_set(board: Board, config: RunConfig, purpose: str, episodes: int) -> int:
    """The number of the next set of a purpose whose seeds no evaluation of the run has had.

    Args:
        board: knows the rounds, the attempts and the sets so far.
        config: of the run.
        purpose: of the orders that will play it.
        episodes: of the set.
    """
    taken = set(_panels(config.seed, _rounds(board, config), config.round.episodes))
    for kind, number, size in _sets(board, config):
        taken.update(seeds(config.seed, kind, number, size))
    number = board.finals.sets.get(purpose, 0)
    while not taken.isdisjoint(seeds(config.seed, purpose, number, episodes)):
        number += 1
    return number


def seeds(seed: int, purpose: str, number: int, episodes: int) -> Iterator[int]:
    """The seeds of a set, in order: those of ``envs.vec_env.random_seeds``."""
    return (seed_of(seed, purpose, number, place) for place in range(episodes))


def _sets(board: Board, config: RunConfig) -> Iterator[tuple[str, int, int]]:
    """The sets of fresh seeds that a run has opened, or will: purpose, number, episodes."""
    stop = config.stop
    for number in range(1, max(board.confirmations, board.attempts) + 1):
        yield "confirm", number, stop.confirm_episodes
    if config.snapshots.seconds is not None:
        yield "snapshot", 0, config.snapshots.episodes
    for purpose, used in board.finals.sets.items():
        size = stop.batch if purpose == "final" else stop.confirm_episodes
        for number in range(used):
            yield purpose, number, size


@lru_cache(maxsize=1)
def _panels(seed: int, rounds: int, episodes: int) -> frozenset[int]:
    """The seeds of the panels of rounds 0 to ``rounds``."""
    every = (seeds(seed, "panel", number, episodes) for number in range(rounds + 1))
    return frozenset(each for panel in every for each in panel)


def _rounds(board: Board, config: RunConfig) -> int:
    """The last round that any pod may have trained, by what its books say."""
    return max(
        (
            pod.parent_round + math.ceil(pod.trained_steps / config.round.env_steps) + 1
            for pod in board.pods.values()
        ),
        default=0,
    )

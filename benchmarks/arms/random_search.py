"""Random search: as many full trainings as the budget allows, each from a draw of its own."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from arms import loop
from arms.order import Delivery, Order, main
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.records.records import stable_hash
from hpcpod.tournament.mutation import sample


class RandomSearch:
    """Draws as founders of a run are drawn; the algorithms take turns."""

    def __init__(self, order: Order) -> None:
        self._seed = order.seed
        self._spaces = resolve_algorithms(from_mapping(order.config()))

    def ask(self, number: int) -> tuple[None, str, Mapping[str, Any]]:
        """See ``Optimiser``."""
        names = list(self._spaces)
        algorithm = names[number % len(names)]
        key = stable_hash(self._seed, "random search", number)
        return None, algorithm, sample(self._spaces[algorithm], Random(key))

    def goes_on(self, _handle: None, _round_number: int, _score: float) -> bool:
        """Every training comes to its end."""
        return True

    def tell(self, handle: None, score: float | None) -> None:
        """Nothing is learnt."""


def play(order: Order) -> Delivery:
    """See ``loop.play``."""
    return loop.play(order, RandomSearch(order))


if __name__ == "__main__":
    main(play)

"""Fair shares: every pod trains, each algorithm gets its share of the time."""

from __future__ import annotations

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Prospects


class Fair:
    """Nobody rests, and the order is the tournament's: the least experience first."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Leave everything to the tournament's own order."""
        return Allocation()

"""The default rule: halving where a budget is too small for all, and fair shares elsewhere."""

from __future__ import annotations

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.allocators.halving import Halving


class Auto:
    """Halving in a run with ``stop.env_steps`` or ``stop.minutes``; else every pod trains.

    Of a budget in environment steps resting pods leave their slots idle: a run takes longer. So
    where a slot is asked for each pod, every pod trains; ``halving`` by name would have them rest.
    Of a budget in seconds no slot is left idle, and nothing is lost by the order.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self._halving = Halving(config)

    def allocate(self, prospects: Prospects) -> Allocation:
        """Halve where a budget is limited and slots are fewer than pods."""
        enough = prospects.slots is not None and prospects.slots >= prospects.pods
        if prospects.spent is None or (enough and prospects.axis == "env_steps"):
            return Allocation()
        found = self._halving.allocate(prospects)
        return found if found.resting or found.fresh else Allocation()

"""Thompson sampling: a pod trains as often as it may be the best of today's policies."""

from __future__ import annotations

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.allocators.contention import drawn, seen
from hpcpod.tournament.scores import posterior


class Thompson:
    """Draws who trains from the belief about true scores (Thompson 1933), with the covariance of
    common seeds."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def allocate(self, prospects: Prospects) -> Allocation:
        """Order pods by draws of their true means."""
        pods = prospects.rivals
        if not pods:
            return Allocation()
        belief = posterior(*seen(pods), key=prospects.key, draws=max(512, len(pods)))
        return drawn(prospects, pods, belief.draws)

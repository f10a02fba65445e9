"""A generator that never replaces a pod that lives: a random search of the founders."""

from __future__ import annotations

from hpcpod.records import PodState, Verdict
from hpcpod.tournament.census import Census
from hpcpod.tournament.generators import Copy, GentleTruncation


class NoCopies(GentleTruncation):
    """Everyone trains on, whoever leads."""

    def challenge(self, census: Census, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """Nothing takes a living pod's place."""
        return None

"""Random search: independent draws, each trained by itself."""

from __future__ import annotations

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.budget import followed
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.succession import Succession, because
from hpcpod.tournament.proposals import Fresh


class RandomSearch(Succession):
    """Every pod is a draw from the ranges, and none is ever copied.

    It is the yardstick of the others, and the choice where copies can't help: ranges of what is
    fixed at birth, rewards that come late. Where ``stop.rounds`` and ``stop.env_steps`` or
    ``stop.minutes`` limit a run, a pod that has trained all its rounds gives its place to a new
    draw, until the budget is spent: P places then try more than P draws. A control that is done
    stays, and with ``allocator: replicates`` every pod, since that trains it with other seeds.
    """

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Fresh | None:
        """A new draw in the place of a pod that is done, if the run goes on after it."""
        config = cohorts.config
        another = followed(config) and config.population.allocator != "replicates"
        if pod.birth is not None or not another or not cohorts.spare(pod, pod.algorithm):
            return None
        done = f"{pod.id} has trained its {config.stop.rounds} rounds"
        return self.fresh(cohorts, pod.algorithm, pod, done, key)

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Fresh:
        """A new draw, of the same algorithm where that is hopeful."""
        algorithm = cohorts.heir(dead.algorithm)
        return self.fresh(cohorts, algorithm, dead, because(dead), key)

"""Gentle truncation: few copies, each with a reason."""

from __future__ import annotations

from random import Random

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.collapse import before_collapse
from hpcpod.tournament.generators.succession import Succession, donors
from hpcpod.tournament.proposals import Copy, Fresh


class GentleTruncation(Succession):
    """Few copies, each with a reason.

    Of a cohort, only the worst eighth may be replaced, and at most ceil(n / 8) of an algorithm's
    n pods per round. The parent is drawn from the best 30 %. It must have beaten the pod by the
    updater's verdict, and in a budget it must have learnt what a copy could pass on: see
    ``Cohorts.learnt``. Where all of these have fallen behind the best row of the leaderboard, that
    is the parent: see ``before_collapse``. A control that may still teach something is not
    replaced, nor is the last pod of an algorithm. The child is of its parent's family always; its
    other hyperparameters are mutated.
    """

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Copy | Fresh | None:
        """A copy of a better policy, if this pod is among the worst and may be replaced."""
        if not verdict.round or not cohorts.spare(pod):
            return None
        cohort = cohorts.cohort(pod.algorithm, verdict.round)
        taken = cohorts.copies[pod.algorithm, verdict.round]
        if pod.id not in cohort.worst or taken >= cohort.places:
            return None
        rng = Random(key)
        able = (cohorts.living.keys() & set(verdict.beaten_by)) - {pod.id}
        if leaders := donors(cohorts, cohort, cohorts.learnt(cohort, able)):
            parent, at = rng.choice(leaders)
            return self.copy(cohorts, parent, at, verdict.evidence.get(parent, ""), rng)
        row = before_collapse(cohorts, cohort)
        if row is None:
            return None
        said = f"at round {cohort.round} all are behind {row.pod} at round {row.round}:"
        return self.copy(
            cohorts, row.pod, row.round, f"{said} {row.mean:.6g}, at least {row.low:.6g}", rng
        )

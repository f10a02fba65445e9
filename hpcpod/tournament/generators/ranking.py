"""Ranking: the plain tournament, without a test."""

from __future__ import annotations

from random import Random

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.succession import Succession, round_of
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.statistics import mean
from hpcpod.tournament.stopping import leader


class Ranking(Succession):
    """Once per round the worst pod of an algorithm gives way to a copy of the best.

    So the tournament of ElegantRL-Podracer (Liu et al. 2021) selects; what beats whom is not
    tested, so that of equal pods one falls in every round. The mean of the whole panel ranks. It is
    for comparisons with that rule, and for exact panels, as in a deterministic environment.
    """

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """A copy of the best of a cohort, if this pod is its worst and none fell at this round."""
        at = verdict.round
        if not at or not cohorts.spare(pod) or cohorts.copies[pod.algorithm, at]:
            return None
        cohort = cohorts.cohort(pod.algorithm, at)
        scores = {name: mean(found.returns) for name, found in cohort.standings.items()}
        ranked = sorted(scores, key=lambda name: (-scores[name], name))
        alike = [name for name in ranked if cohorts.board.pods[name].algorithm == pod.algorithm]
        spare = [name for name in alike if not cohorts.board.pods[name].control]
        best, worst = ranked[0], spare[-1] if spare else None
        first = leader(cohorts.board)
        if pod.id != worst or best == worst or best not in cohorts.living:
            return None
        if first is not None and first.pod == worst:  # it has the best score of the run so far
            return None
        source = round_of(cohorts, cohort, best)
        if source is None or scores[best] <= scores[worst]:
            return None
        said = f"{best} {scores[best]:.6g} over {worst} {scores[worst]:.6g} at round {at}, untested"
        return self.copy(cohorts, best, source, said, Random(key))

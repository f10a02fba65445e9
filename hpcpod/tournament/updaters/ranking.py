"""The ranking: the worst are beaten by the best, without a test."""

from __future__ import annotations

from hpcpod.config.schema import PopulationConfig
from hpcpod.records.records import PodState, Report, Verdict
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.judgement import Finding, judged
from hpcpod.tournament.statistics import halves, mean


class Ranking:
    """The worst eighth of a cohort is beaten by each of the best 30 % that ranks above it.

    Truncation selection (Jaderberg et al. 2017), and the plain tournament of ElegantRL-Podracer
    (Liu et al. 2021). It tests nothing: where all pods are equal and their returns differ, the
    worst is beaten every time. Ranks are those of the cohort, by the even episodes of the panel.
    It is here to be compared with.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders of its cohort that rank above it."""
        return judged(cohorts, report, _ranks_above)


def _ranks_above(cohort: Cohort, rival: PodState, pod: PodState) -> Finding:
    one, other = (mean(halves(cohort.standings[each.id].returns)[0]) for each in (rival, pod))
    if one <= other:
        return Finding()
    return Finding(
        f"{rival.id} {one:.6g} is number {cohort.place(rival.id)} of {len(cohort.standings)} and"
        f" {pod.id} {other:.6g} among the worst at round {cohort.round}; no test was made"
    )

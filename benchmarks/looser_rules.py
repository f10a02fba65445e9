"""Rules that hpcpod does not use, to compare: nobody is copied, or copied with less evidence."""

from __future__ import annotations

from hpcpod.records.records import PodState, Report, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.statistics import difference
from hpcpod.tournament.updaters import PairedGate


class NoCopies(GentleTruncation):
    """A generator that never replaces a pod that lives: a random search of the founders."""

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """Nothing takes a living pod's place."""
        return None


class LooserGate(PairedGate):
    """An updater that tests on all episodes, also those that ranked, at 5 % against each leader."""

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Name the leaders that beat one of the worst by the whole panel."""
        verdict, pod = super().judge(cohorts, report), cohorts.living[report.pod]
        if not verdict.round:
            return verdict
        cohort = cohorts.cohort(pod.algorithm, verdict.round)
        beaten_by = []
        for rival in cohort.best if pod.id in cohort.worst else ():
            one, other = (cohort.standings[each].returns for each in (rival, pod.id))
            test = difference(one, other, paired=cohort.paired(rival, pod.id))
            if test is not None and test.low > 0:
                beaten_by.append(rival)
        return Verdict(verdict.admit, verdict.round, tuple(beaten_by))

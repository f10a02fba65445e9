"""What the leaderboard keeps, and whose copy is justified."""

from __future__ import annotations

from typing import Protocol

from hpcpod.config.schema import PopulationConfig
from hpcpod.records import Report, Verdict
from hpcpod.tournament.census import Census, Cohort
from hpcpod.tournament.scores import Difference, difference


class Updater(Protocol):
    """Judges every round that was finished. Pure: the same census and report, the same verdict.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def judge(self, census: Census, report: Report) -> Verdict:
        """What a report means, on ``census.board``, which holds all reports of the merge."""
        ...


class PairedGate:
    """A pod is beaten only beyond doubt: by a one-sided paired test on common seeds.

    The pod is compared at the latest round that a quorum of the population has reached and
    at which it has not been compared before; see ``Census.due``. Pod c beats pod p there if
    the differences D_e = r_c,e - r_p,e of the panel's episodes have

        mean(D) - t s_D / sqrt(n) > 0

    with t the 95 % quantile of Student's distribution at n - 1: 1.70 for 32 episodes.

    Only the worst eighth is tested, against the best 30 %: nobody else is replaced or
    copied, and all pairs of a thousand pods would take seconds.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def judge(self, census: Census, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders of its cohort that beat it."""
        pod = census.living[report.pod]
        admit = pod.best is not None and pod.best.round == report.round
        compared = census.due(pod)
        if compared is None:
            return Verdict(admit)
        cohort = census.cohort(compared)
        evidence: dict[str, str] = {}
        if pod.id in cohort.worst:
            for rival in cohort.best:
                test = _compare(cohort, rival, pod.id)
                if test is not None and test.low > 0:
                    evidence[rival] = _in_words(cohort, rival, pod.id, test)
        return Verdict(admit, compared, tuple(evidence), evidence)


def _compare(cohort: Cohort, challenger: str, incumbent: str) -> Difference | None:
    evaluations = cohort.evaluations
    return difference(evaluations[challenger].returns, evaluations[incumbent].returns)


def _in_words(cohort: Cohort, challenger: str, incumbent: str, test: Difference) -> str:
    return (
        f"{challenger} {cohort.means[challenger]:.6g} over"
        f" {incumbent} {cohort.means[incumbent]:.6g} at round {cohort.round}"
        f" on {test.episodes} common seeds: mean difference {test.mean:.6g},"
        f" lower bound {test.low:.6g}"
    )

"""Judgement of finished rounds: the updater's protocol, and the course that all updaters share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hpcpod.records.records import PairTest, PodState, Report, Verdict
from hpcpod.tournament.cohorts import NEAR, Cohort, Cohorts


@dataclass(frozen=True)
class Finding:
    """The result of a test of a pod against one rival."""

    evidence: str = ""
    """Empty, or why the rival beats the pod, in words."""
    test: PairTest | None = None
    """Its numbers, whatever it found."""


Test = Callable[[Cohort, PodState, PodState], Finding]
"""Called with a cohort, a rival and a pod."""


class Updater(Protocol):
    """Judges every round that was finished. Pure: the same cohorts and report, the same verdict.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Say what a report means, on ``cohorts.board``, which holds all reports of the merge."""


def judged(cohorts: Cohorts, report: Report, test: Test) -> Verdict:
    """The verdict by a test of a pod against the leaders of its cohort.

    The pod is compared at the latest round at which it can be and has not been; see
    ``Cohorts.due``. It is tested only if it is among the worst eighth of that cohort, and only
    against the best 30 %: all pairs of a thousand pods would take seconds. The best evaluation so
    far is admitted; the one before the last may become it only now, see ``estimates``.
    """
    pod = cohorts.living[report.pod]
    admit = pod.best is not None and pod.best in pod.history[-2:]
    compared = cohorts.due(pod)
    if compared is None:
        return Verdict(admit)
    cohort = cohorts.cohort(pod.algorithm, compared)
    found = {}
    if pod.id in cohort.worst:
        for rival in rivals(cohorts, cohort, pod):
            found[rival] = test(cohort, cohorts.board.pods[rival], pod)
    evidence = {rival: each.evidence for rival, each in found.items() if each.evidence}
    tests = tuple(each.test for each in found.values() if each.test is not None)
    place, among = cohort.place(pod.id), len(cohort.standings)
    return Verdict(admit, compared, tuple(evidence), evidence, place, among, tests)


def rivals(cohorts: Cohorts, cohort: Cohort, pod: PodState) -> Iterator[str]:
    """The best of a cohort, but for those that stand in it by their cost alone, with an evaluation
    at less than the cost at which the pod was compared last, or made as a copy."""
    last = max(pod.judged, pod.parent_round)
    cost = max(
        (standing.cost for standing in pod.evaluations if standing.round <= last), default=0.0
    )
    for rival in cohort.best:
        standing = cohort.standings[rival]
        kin = cohorts.board.pods[rival].algorithm == pod.algorithm
        # else fast pods were gone in 12 of 12 runs, though all were equal
        if standing.cost >= cost or (kin and standing.round >= NEAR * cohort.round):
            yield rival

"""Judgement of finished rounds: the updater's protocol, and the course that all updaters share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
    again = _second(cohorts, pod, test)
    if again is not None and again.beaten_by:
        return replace(again, admit=admit)
    compared = cohorts.due(pod)
    if compared is None:
        return Verdict(admit) if again is None else replace(again, admit=admit)
    cohort = cohorts.cohort(pod.algorithm, compared)
    found = {}
    if pod.id in cohort.worst:
        for rival in rivals(cohorts, cohort, pod):
            found[rival] = test(cohort, cohorts.board.pods[rival], pod)
    evidence = {rival: each.evidence for rival, each in found.items() if each.evidence}
    tests = tuple(each.test for each in found.values() if each.test is not None)
    place, among = cohort.place(pod.id), len(cohort.standings)
    tests = (*(() if again is None else again.tests), *tests)
    return Verdict(admit, compared, tuple(evidence), evidence, place, among, tests)


def _second(cohorts: Cohorts, pod: PodState, test: Test) -> Verdict | None:
    """The verdict of a pod's second look; None unless it has one whose episodes are played."""
    look = cohorts.board.looks.get(pod.id)
    if look is None or not look.done:
        return None
    cohort = cohorts.cohort(pod.algorithm, look.round)
    both = [cohort.standings.get(each) for each in (pod.id, look.rival)]
    if any(each is None or each.round != look.round for each in both):
        return None
    larger = replace(cohort, further={pod.id: look.returns, look.rival: look.rivals})
    found = test(larger, cohorts.board.pods[look.rival], pod)
    evidence = {look.rival: found.evidence} if found.evidence else {}
    tests = () if found.test is None else (found.test,)
    place, among = cohort.place(pod.id), len(cohort.standings)
    return Verdict(False, look.round, tuple(evidence), evidence, place, among, tests)


def rivals(cohorts: Cohorts, cohort: Cohort, pod: PodState) -> Iterator[str]:
    """The best of a cohort, but for the pod itself, where few may be replaced, and for those that
    stand in it by their cost alone, with an evaluation at less than the cost at which the pod was
    compared last, or made as a copy."""
    last = max(pod.judged, pod.parent_round)
    cost = max(
        (standing.cost for standing in pod.evaluations if standing.round <= last), default=0.0
    )
    for rival in cohort.best:
        if rival == pod.id:
            continue
        standing = cohort.standings[rival]
        kin = cohorts.board.pods[rival].algorithm == pod.algorithm
        # else fast pods were gone in 12 of 12 runs, though all were equal
        if standing.cost >= cost or (kin and standing.round >= NEAR * cohort.round):
            yield rival

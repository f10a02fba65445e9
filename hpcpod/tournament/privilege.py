"""Places that pods keep though others are better, in words."""

from __future__ import annotations

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.budget import due
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.generators.succession import round_of
from hpcpod.tournament.proposals import Generator


def privilege(cohorts: Cohorts, pod: PodState) -> str:
    """The ground on which ``Cohorts.spare`` keeps a pod, as what it is."""
    if cohorts.young(pod):
        share = due(pod.share, cohorts.config, cohorts.slots)
        return f"a pod that has not had its first share of the budget, {share:.6g}"
    return "a control" if pod.control else f"the last {pod.algorithm}"


def stays(cohorts: Cohorts, pod: PodState, verdict: Verdict, generator: Generator) -> str:
    """The reason why a pod that was beaten keeps its place, as far as it is known."""
    if not cohorts.spare(pod):
        return f"it keeps its place as {privilege(cohorts, pod)}"
    cohort = cohorts.cohort(pod.algorithm, verdict.round)
    able = [name for name in verdict.beaten_by if name in cohorts.living and name != pod.id]
    if not any(round_of(cohorts, cohort, name) for name in able):
        return "it keeps its place, since a copy of what beat it would have nothing to train"
    if isinstance(generator, GentleTruncation) and not cohorts.learnt(cohort, able):
        return "it keeps its place, since what beat it is not shown to have learnt anything yet"
    return "it keeps its place, since the generator makes no other pod for it now"

"""Multiple frequencies: sub-populations of which some select seldom.

MF-PBT (Doulazmi et al. 2025, arXiv 2506.03225): who selects every round prefers what is best now,
who selects every tenth sees what pays later. The best of each cross over.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.cohorts import Cohort, Cohorts, quotas
from hpcpod.tournament.generators.succession import Succession, round_of, selected
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.statistics import GATE, difference, halves

FREQUENCIES = (1, 10, 25, 50)
"""Rounds between two selections of each sub-population, as in MF-PBT."""
LEAST = 4
"""Pods of a sub-population, below which there are fewer of them: a quarter of it is a pod."""


class MultiFrequency(Succession):
    """Sub-populations that select every 1, 10, 25 and 50 rounds, as many as have four pods each.

    Places of an algorithm are dealt to them in turns. When a pod is compared at the first round
    after a multiple of its sub-population's frequency, its place among the sub-population decides.
    In the worst quarter it may give way to a copy of one of the best quarter, with mutated
    hyperparameters. In the quarter above, to the best pod of another sub-population: where that one
    selects less often, with its hyperparameters; where it selects more often, with its weights
    alone and the hyperparameters of the best of one's own, so that those which only pay at once do
    not spread. A copy needs a test, as by ``paired_gate`` (the updater's own verdict is not asked):
    the even episodes rank, and Student's or Welch's on the odd ones must show the parent to be
    better, at 5 % over all that may be the parent. Ungated, MF-PBT's own rule, copies of equal pods
    would fill a quarter of the places each time.

    It is for long runs: with fewer than eight pods of an algorithm, or ten rounds, only the first
    sub-population ever selects.
    """

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        """A copy of a better pod, if it is this pod's sub-population's turn."""
        at, before = verdict.round, selected(cohorts, pod)
        if not at or not cohorts.spare(pod):
            return None
        count = max(1, min(len(FREQUENCIES), quotas(self.config)[pod.algorithm] // LEAST))
        own = cohorts.places[pod.id] % count
        if at // FREQUENCIES[own] == before // FREQUENCIES[own]:
            return None
        cohort = cohorts.cohort(pod.algorithm, at)
        if pod.id not in cohort.standings:
            return None
        parts = {
            name: cohorts.places[name] % count
            for name in cohort.order
            if cohorts.board.pods[name].algorithm == pod.algorithm
        }
        inside = [name for name in parts if parts[name] == own]
        outside = [name for name in parts if parts[name] != own]
        quarter, place = max(1, len(inside) // 4), inside.index(pod.id)
        rng = Random(key)
        if place >= len(inside) - quarter:
            rivals = _better(cohorts, cohort, inside[:quarter], pod.id)
            if not rivals:
                return None
            parent, source, said = rng.choice(rivals)
            return self.copy(cohorts, parent, source, said, rng)
        if place >= len(inside) - 2 * quarter:
            taken = place - (len(inside) - 2 * quarter)  # each takes another one
            for parent, source, said in _better(cohorts, cohort, outside[taken:][:1], pod.id):
                faster = FREQUENCIES[parts[parent]] < FREQUENCIES[own]
                return _migrant(cohorts, parent, source, inside[0] if faster else parent, said)
        return None


def _better(
    cohorts: Cohorts, cohort: Cohort, rivals: Sequence[str], pod: str
) -> list[tuple[str, int, str]]:
    """Rivals that are shown to be better, each with the round to copy and the evidence."""
    found = []
    for rival in rivals:
        if rival == pod or rival not in cohorts.living:
            continue
        one, other = (halves(cohort.standings[name].returns)[1] for name in (rival, pod))
        paired = cohort.paired(rival, pod) and len(one) == len(other)
        level = GATE / len(rivals)
        test = difference(one, other, paired=paired, level=level)
        source = round_of(cohorts, cohort, rival)
        if test is not None and test.low > 0 and source is not None:
            bound = f"mean difference {test.mean:.6g}, lower bound {test.low:.6g} at"
            said = f"{rival} was shown to be better than {pod} at round {cohort.round}: {bound}"
            said += f" {100 * level:.3g} %"
            found.append((rival, source, said))
    return found


def _migrant(cohorts: Cohorts, parent: str, source: int, model: str, said: str) -> Copy:
    """A copy of one pod's weights with another's hyperparameters, but for the shape of networks."""
    weights, other = cohorts.board.pods[parent], cohorts.board.pods[model]
    space = cohorts.algorithms[weights.algorithm]
    taken = {name: other.hyperparameters[name] for name in space.mutable}
    hyperparameters = {**weights.hyperparameters, **taken}
    mutated = tuple(
        name for name in sorted(taken) if hyperparameters[name] != weights.hyperparameters[name]
    )
    if model != parent:
        said += f"; hyperparameters of {model}"
    return Copy(parent, source, hyperparameters, mutated, said)

"""The gate for two aims: a high return, and a low cost."""

from __future__ import annotations

from itertools import pairwise

from hpcpod.config.schema import PopulationConfig
from hpcpod.errors import UserError
from hpcpod.records.records import Board, PodState, Report, Verdict
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.judgement import Finding, judged
from hpcpod.tournament.statistics import Difference, difference
from hpcpod.tournament.updaters.gate import level_of, outscored

SECONDS = "seconds"
RECENT = 4
"""Rounds whose cost is compared, the newest."""


class Pareto:
    """A pod is beaten by a rival that is better on one aim, and is not shown to be worse on the
    other.

    The aims are the mean return and ``population.cost``, of which less is better. A rival returns
    more by the paired gate's test. It costs less by Student's one-sided test on the rounds that
    both have trained, the newest four; without two common rounds by Welch's test on their own. The
    two tests share the gate's 5 % (2.5 % each), so that of pods that are equal in both aims a test
    beats 5 % at most. To be worse is tested the other way round, at the gate's whole 5 %. A cost of
    which fewer than two rounds are known is neither better nor worse.

    Who is tested is decided by the return alone: the worst eighth of a cohort, against its best
    30 %. So a pod that returns little stays if it is cheap, and one that returns much stays,
    whatever it costs. The slot-seconds of a round are those of its node: on nodes of unequal speed
    pods of a slow one cost more, whatever they are; there name a metric.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self._cost = config.cost

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders that are better in this sense.

        Raises:
            UserError: ``population.cost`` names a metric that no pod's rounds have.
        """
        if self._cost != SECONDS:
            _require(self._cost, cohorts.board)
        return judged(cohorts, report, self._dominated)

    def _dominated(self, cohort: Cohort, rival: PodState, pod: PodState) -> Finding:
        cheaper = self._costlier(cohort, pod, rival, share=0.5)
        dearer = self._costlier(cohort, rival, pod)
        more = outscored(cohort, rival, pod, share=0.5)
        less = outscored(cohort, pod, rival)
        if (more.evidence and not dearer) or (cheaper and not less.evidence):
            words = "; ".join(each for each in (more.evidence, cheaper) if each)
            return Finding(words, more.test)
        return Finding("", None if more.evidence else more.test)

    def _costlier(
        self, cohort: Cohort, one: PodState, other: PodState, *, share: float = 1.0
    ) -> str:
        """The evidence that a pod costs more than another, in words; empty if it is not shown."""
        test = _test(
            costs(one, cohort.standings[one.id].round, self._cost),
            costs(other, cohort.standings[other.id].round, self._cost),
            level_of(cohort, share),
        )
        if test is None or test.low <= 0:
            return ""
        return (
            f"{one.id} costs {test.mean:.4g} {self._cost} a round more than {other.id} on"
            f" {test.episodes} {'common rounds' if test.paired else 'rounds each'}, lower bound"
            f" {test.low:.4g} at {100 * level_of(cohort, share):.3g} %"
        )


def _require(cost: str, board: Board) -> None:
    """Refuse the name of a metric that no round has, once a pod has trained two: the first may be
    without an update."""
    trained = [pod.history for pod in board.living if len(pod.history) > 1]
    known = {name for history in trained for each in history for name in each.metrics}
    if trained and cost not in known:
        others = f"there are {', '.join(sorted(known))}" if known else "there is none"
        raise UserError(f"population.cost: no round has a metric {cost!r}; {others}")


def costs(pod: PodState, until: int, cost: str) -> dict[int, float]:
    """The cost of each round that a pod has trained itself, by round, up to one; the newest four.

    Of slot-seconds those rounds are known before which the pod was evaluated, too: they are the
    difference of the two.
    """
    own = [each for each in pod.evaluations if pod.parent_round < each.round <= until]
    if cost != SECONDS:
        kept = [each for each in pod.history if each in own and cost in each.metrics]
        found = {each.round: each.metrics[cost] for each in kept}
    else:
        found = {
            later.round: later.cost - before.cost
            for before, later in pairwise(own)
            if later.round == before.round + 1
        }
        if pod.parent is None and own and own[0].round == 1:
            found[1] = own[0].cost
    return {each: found[each] for each in sorted(found)[-RECENT:]}


def _test(one: dict[int, float], other: dict[int, float], level: float) -> Difference | None:
    common = sorted(one.keys() & other.keys())
    if len(common) >= 2:
        mine, its = ([each[at] for at in common] for each in (one, other))
        return difference(mine, its, paired=True, level=level)
    return difference(list(one.values()), list(other.values()), paired=False, level=level)

"""The gate's test, which updaters share: one half of a panel ranks pods, the other tests them."""

from __future__ import annotations

import math

from hpcpod.records.records import PairTest, PodState
from hpcpod.tournament.cohorts import Cohort
from hpcpod.tournament.judgement import Finding
from hpcpod.tournament.statistics import (
    Difference,
    Returns,
    difference,
    halves,
    mean,
    t_quantile,
)


def level_of(cohort: Cohort, share: float = 1.0) -> float:
    """The level of one of a pod's tests: all leaders that it is tried with share the cohort's
    level, 5 % unless there are second looks, or a share of it (Bonferroni)."""
    return share * cohort.level / len(cohort.best)


def outscored(
    cohort: Cohort, rival: PodState, pod: PodState, *, share: float = 1.0, paired: bool = True
) -> Finding:
    """The test whether a rival returns more than a pod.

    With D_e = r_rival,e - r_pod,e of the n odd episodes of both panels, and of further ones if
    there are any, it does if

        mean(D) - t s_D / sqrt(n) > 0

    with t Student's quantile at n - 1, at the level ``level_of(cohort, share)``. Evaluations of
    different rounds have no common episodes; then, and with ``paired`` False, the bound is Welch's.
    """
    level = level_of(cohort, share)
    found = _difference(cohort, rival, pod, level, paired)
    if found is None:
        return Finding()
    low = min(found.low, found.mean - _doubt(cohort, pod, level))
    test = PairTest(rival.id, found.mean, low, level, found.episodes, found.paired)
    return Finding(_in_words(cohort, rival.id, pod.id, found, level) if low > 0 else "", test)


def _difference(
    cohort: Cohort, one: PodState, other: PodState, level: float, paired: bool
) -> Difference | None:
    mine, its = (tested(cohort, pod.id) for pod in (one, other))
    common = paired and cohort.paired(one.id, other.id) and len(mine) == len(its)
    return difference(mine, its, paired=common, level=level)


def tested(cohort: Cohort, pod: str) -> Returns:
    """The returns by which a pod is tested: none of them has ranked it."""
    return (*halves(cohort.standings[pod].returns)[1], *cohort.further.get(pod, ()))


def _doubt(cohort: Cohort, pod: PodState, level: float) -> float:
    """The margin of a pod whose whole panel is equal, by the spread of its panels before.

    A policy that succeeds in one episode of sixteen has a panel of failures now and then. That has
    no spread, and would be beaten with certainty by a pod that does a little better each time. It
    is 0 for a pod that never had a spread, such as one in a deterministic environment.
    """
    returns, motion = cohort.standings[pod.id].returns, pod.motion
    if min(returns) < max(returns) or not motion.noise:
        return 0.0
    episodes = len(halves(returns)[1])
    error = math.sqrt(2 * motion.noise / motion.panels)  # a half of the panel has twice its square
    return t_quantile(1 - level, episodes - 1) * error


def _in_words(
    cohort: Cohort, challenger: str, incumbent: str, test: Difference, level: float
) -> str:
    """The numbers of a test, such as ``p2 9.5 over p1 3.25 at round 4 on 16 common seeds``."""
    one, other = (cohort.standings[pod] for pod in (challenger, incumbent))
    scores = [mean(tested(cohort, pod)) for pod in (challenger, incumbent)]
    seeds = f"{test.episodes} {'common seeds' if test.paired else 'seeds each'}"
    if one.round == other.round:
        said = f"{challenger} {scores[0]:.6g} over {incumbent} {scores[1]:.6g} at round {one.round}"
    else:
        said = (
            f"{challenger} {scores[0]:.6g} at its round {one.round} ({one.cost:.4g} slot-seconds)"
            f" over {incumbent} {scores[1]:.6g} at round {other.round} ({other.cost:.4g})"
        )
    return (
        f"{said} on {seeds} that did not rank them: mean difference {test.mean:.6g},"
        f" lower bound {test.low:.6g} at {100 * level:.3g} %"
    )

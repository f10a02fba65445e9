"""Updaters: judge who stays on the leaderboard, and whose copy is justified."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from hpcpod.config.schema import PopulationConfig
from hpcpod.records.records import PairTest, PodState, Report, Verdict
from hpcpod.tournament.cohorts import NEAR, Cohort, Cohorts
from hpcpod.tournament.statistics import GATE, Difference, difference, halves, mean, t_quantile


class Updater(Protocol):
    """Judges every round that was finished. Pure: the same cohorts and report, the same verdict.

    A plugin is built with the run's ``PopulationConfig``.
    """

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Say what a report means, on ``cohorts.board``, which holds all reports of the merge."""


class PairedGate:
    """A pod is beaten by a one-sided test at 5 % on episodes that did not choose whom to test.

    The pod is compared at the latest round at which it can be and has not been; see
    ``Cohorts.due``. Its cohort is ranked by the even episodes of the panel. If it is among the
    worst eighth, it is tested on the odd ones against each of the best 30 %, k pods, at the
    level 0.05 / k (Bonferroni). Pod c beats pod p if the differences D_e = r_c,e - r_p,e of the
    n common episodes have

        mean(D) - t s_D / sqrt(n) > 0

    with t Student's quantile at n - 1. Evaluations of different rounds have no common episodes,
    and Welch's test takes its place. So where all pods are equal, one that is tested is beaten
    by any of them with a probability of about 5 %, given panels of eight episodes or more whose
    returns differ. Each of its rounds may be a test. A rival that stands in it by its cost, of
    another algorithm or on a far slower node, is one only with what it has shown since: else a slow
    pod's evaluation would be tried against a fast one's again and again, until it falls to it.

    No other pod is replaced or copied: all pairs of a thousand pods would take seconds.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders of its cohort that beat it.

        The one before the last may become the best only now: see ``estimates``.
        """
        pod = cohorts.living[report.pod]
        admit = pod.best is not None and pod.best in pod.history[-2:]
        compared = cohorts.due(pod)
        if compared is None:
            return Verdict(admit)
        cohort = cohorts.cohort(pod.algorithm, compared)
        evidence: dict[str, str] = {}
        tests: list[PairTest] = []
        if pod.id in cohort.worst:
            level = GATE / len(cohort.best)
            for rival in rivals(cohorts, cohort, pod):
                test = _compare(cohort, rival, pod.id)
                if test is None:
                    continue
                low = min(test.low, test.mean - _doubt(cohort, pod))
                tests.append(PairTest(rival, test.mean, low, level, test.episodes, test.paired))
                if low > 0:
                    evidence[rival] = _in_words(cohort, rival, pod.id, test)
        place = cohort.place(pod.id)
        among = len(cohort.standings)
        return Verdict(admit, compared, tuple(evidence), evidence, place, among, tuple(tests))


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


def _compare(cohort: Cohort, challenger: str, incumbent: str) -> Difference | None:
    one, other = (halves(cohort.standings[pod].returns)[1] for pod in (challenger, incumbent))
    paired = cohort.paired(challenger, incumbent) and len(one) == len(other)
    return difference(one, other, paired=paired, level=GATE / len(cohort.best))


def _doubt(cohort: Cohort, pod: PodState) -> float:
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
    return t_quantile(1 - GATE / len(cohort.best), episodes - 1) * error


def _in_words(cohort: Cohort, challenger: str, incumbent: str, test: Difference) -> str:
    """The numbers of a test, such as ``p2 9.5 over p1 3.25 at round 4 on 16 common seeds``."""
    one, other = (cohort.standings[pod] for pod in (challenger, incumbent))
    scores = [mean(halves(standing.returns)[1]) for standing in (one, other)]
    seeds = f"{test.episodes} {'common seeds' if test.paired else 'seeds each'}"
    if one.round == other.round:
        said = f"{challenger} {scores[0]:.6g} over {incumbent} {scores[1]:.6g} at round {one.round}"
    else:
        said = (
            f"{challenger} {scores[0]:.6g} at its round {one.round} ({one.cost:.4g} slot-seconds)"
            f" over {incumbent} {scores[1]:.6g} at round {other.round} ({other.cost:.4g})"
        )
    level = 100 * GATE / len(cohort.best)
    return (
        f"{said} on {seeds} that did not rank them: mean difference {test.mean:.6g},"
        f" lower bound {test.low:.6g} at {level:.3g} %"
    )

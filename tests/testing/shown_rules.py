"""Rules that change what they are shown, and a legal generator whose runs last long."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from hpcpod.config.schema import PopulationConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Hyperparameters, PodState, Report, Verdict
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.allocators.fair import Fair
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.mutation import sample
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.updaters.ranking import Ranking


class ForgetsPods(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict = super().judge(cohorts, report)
        cast(dict[str, PodState], cohorts.board.pods).pop(report.pod, None)
        return verdict


class RewritesReports(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        cast(dict[str, float], report.metrics).clear()
        return super().judge(cohorts, report)


class ForgetsTheBeaten(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        cast(dict[str, PodState], cohorts.board.pods).pop(pod.id, None)
        return None


class ChangesHyperparameters(GentleTruncation):
    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        for pod in cohorts.living.values():
            cast(dict[str, Any], pod.hyperparameters)["learning_rate"] = 2e-4
        return super().replace(cohorts, dead, key)


class NarrowsSpaces(GentleTruncation):
    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        found = super().founder(space, control, key)
        cast(dict[str, Any], space.values)["learning_rate"] = 3e-4
        return found


class TurnsTheRanking(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        prospects.scored.reverse()
        return super().allocate(prospects)


class DrawsAgain:
    """Legal: a beaten pod and a dead one give way to fresh draws."""

    def __init__(self, config: PopulationConfig) -> None:
        pass

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        return space.unmutated() if control else sample(space, Random(key))

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Fresh | None:
        if not verdict.beaten_by or not cohorts.spare(pod):
            return None
        if pod.id in cohorts.cohort(pod.algorithm, verdict.round).best:
            return None
        return self._drawn(cohorts, pod.algorithm, key, f"{verdict.beaten_by[0]} has beaten it")

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Fresh:
        return self._drawn(cohorts, cohorts.heir(dead.algorithm), key, f"{dead.id} failed")

    def _drawn(self, cohorts: Cohorts, algorithm: str, key: int, reason: str) -> Fresh:
        values = self.founder(cohorts.algorithms[algorithm], False, key)
        return Fresh(algorithm, values, evidence=reason)

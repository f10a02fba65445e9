"""Updaters, generators and allocators that break their contract, each in one way."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np

from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.records import Hyperparameters, PodState, Report, Verdict
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.allocators.fair import Fair
from hpcpod.tournament.allocators.halving import Halving
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.updaters.paired_gate import PairedGate
from hpcpod.tournament.updaters.ranking import Ranking

SLOW = 0.2
"""Seconds of a decision; the tests of slow parts allow half of it."""

# --- updaters ------------------------------------------------------------------------------


class TossesACoin(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        return replace(super().judge(cohorts, report), admit=random.random() < 0.5)


class CountsItsVerdicts(Ranking):
    calls = 0

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        self.calls += 1
        return replace(super().judge(cohorts, report), admit=self.calls % 3 == 0)


class BuriesPods(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict = super().judge(cohorts, report)
        if verdict.beaten_by:
            cohorts.members[cohorts.living[report.pod].algorithm] -= 1
        return verdict


class NamesItself(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict = super().judge(cohorts, report)
        beaten_by = (*verdict.beaten_by, report.pod) if verdict.round else ()
        return replace(verdict, beaten_by=beaten_by)


class GivesNoEvidence(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        return replace(super().judge(cohorts, report), evidence={})


class CountsInsteadOfWords(Ranking):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict = super().judge(cohorts, report)
        numbers: dict[str, object] = dict.fromkeys(verdict.beaten_by, 3.2)
        return replace(verdict, evidence=numbers)  # type: ignore[arg-type]


class BeatsEquals(PairedGate):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict, pod = super().judge(cohorts, report), cohorts.living[report.pod]
        if not verdict.round:
            return verdict
        best = cohorts.cohort(pod.algorithm, verdict.round).best
        beaten_by = tuple(rival for rival in best if rival != pod.id)
        return replace(verdict, beaten_by=beaten_by, evidence=dict.fromkeys(beaten_by, "it leads"))


class JudgesForever(PairedGate):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        time.sleep(SLOW)
        return super().judge(cohorts, report)


class AdmitsNothing(PairedGate):
    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        return replace(super().judge(cohorts, report), admit=False)


# --- generators ----------------------------------------------------------------------------


class FoundsOutside(GentleTruncation):
    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        return {**super().founder(space, control, key), "learning_rate": 1.0}


class FoundsInSets(GentleTruncation):
    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        odd: dict[str, object] = {**super().founder(space, control, key), "learning_rate": (1, 2)}
        return odd  # type: ignore[return-value]


class DrawsFromEverywhere(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        found = super().challenge(cohorts, pod, verdict, key + random.randrange(99))
        return found if isinstance(found, Copy) else None


class MovesMembers(GentleTruncation):
    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        cohorts.members[dead.algorithm] += 1
        return super().replace(cohorts, dead, key)


class CrossesFamilies(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        found = super().challenge(cohorts, pod, verdict, key)
        if not isinstance(found, Copy) or "width" not in found.hyperparameters:
            return None
        other = 96 - int(found.hyperparameters["width"])
        return replace(found, hyperparameters={**found.hyperparameters, "width": other})


class InventsParents(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        found = super().challenge(cohorts, pod, verdict, key)
        return replace(found, parent="p9999") if isinstance(found, Copy) else None


class CopiesRoundsOfNumpy(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        found = super().challenge(cohorts, pod, verdict, key)
        return replace(found, round=np.int64(found.round)) if isinstance(found, Copy) else None


class HidesItsMutations(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        found = super().challenge(cohorts, pod, verdict, key)
        return replace(found, mutated=()) if isinstance(found, Copy) else None


class ReplacesControls(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        if not verdict.beaten_by:
            return None
        parent = cohorts.living[verdict.beaten_by[0]]
        return Copy(parent.id, parent.history[-1].round, parent.hyperparameters, (), "it won")


class DecidesForever(GentleTruncation):
    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        time.sleep(SLOW)
        found = super().challenge(cohorts, pod, verdict, key)
        return found if isinstance(found, Copy) else None


# --- allocators ----------------------------------------------------------------------------


class AllocatesByChance(Halving):
    def allocate(self, prospects: Prospects) -> Allocation:
        names = [each.pod for each in prospects.candidates]
        return Allocation(tuple(random.sample(names, len(names))))


class StarvesAll(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        return Allocation(resting={each.pod: "no" for each in prospects.candidates})


class RestsByScore(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        idle = [each for each in prospects.scored if not each.protected][1:]
        scores: dict[str, object] = {each.pod: each.score for each in idle}
        return Allocation(resting=scores)  # type: ignore[arg-type]


class RestsWithoutReason(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        idle = [each.pod for each in prospects.scored if not each.protected][1:]
        return Allocation(resting=dict.fromkeys(idle, ""))


class DividesByNothing(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        assert sum(each.rounds for each in prospects.candidates) / len(prospects.candidates) >= 0
        return Allocation()


class AllocatesForever(Fair):
    def allocate(self, prospects: Prospects) -> Allocation:
        time.sleep(SLOW)
        return super().allocate(prospects)

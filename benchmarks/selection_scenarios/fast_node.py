"""All pods equal, and one on a node that is many times faster: whom it is compared with, at what
error.

Its kin never come to its rounds, so they stand in its comparisons with what they had learned by
the same cost. It may be tested at each of its rounds, on which they have done little since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Report, Verdict
from hpcpod.tournament import updaters
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.updaters import Updater
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.speeds import ENV_STEPS, SELDOM, SLOW, Hours, Ledger, Site, play
from selection_scenarios.world import Game, Settings

SIZES = (4, 8, 12)
TIMES = (1.5, 2.5, 4.0, 10.0)
FAST = "ppo"
"""The group of the pod on the fast node, as a ledger has it: of the algorithm, and not slow."""
SPEED = 500.0
"""Steps per second of the fast node: 100 s a round."""
MINUTES = 180.0


class Counting:
    """A run's updater; it counts its tests, and the pods that they replace."""

    def __init__(self, real: Updater, ledger: Ledger) -> None:
        self._real, self._ledger = real, ledger
        self.tests: Counter[str] = Counter()
        self.falls: Counter[str] = Counter()

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        verdict, pod = self._real.judge(cohorts, report), cohorts.living[report.pod]
        if not verdict.round:
            return verdict
        cohort = cohorts.cohort(pod.algorithm, verdict.round)
        # Rules of before tried all of the best.
        rivals = getattr(updaters, "rivals", lambda *those: cohort.best)
        if pod.id in cohort.worst and list(rivals(cohorts, cohort, pod)):
            group = self._ledger.group(pod)
            self.tests[group] += 1
            self.falls[group] += bool(verdict.beaten_by)
        return verdict


def rows(settings: Settings) -> Iterator[Row]:
    for pods in SIZES:
        for faster in TIMES:
            case = f"{pods} pods, one {faster:g} times faster"
            yield Row("all equal, one node faster", case, numbers(pods, faster, settings))


def numbers(pods: int, faster: float, settings: Settings) -> dict[str, Number]:
    """Tests and falls of the fast node's pods, and of all others."""
    slots = (1.0, *[1 / faster] * (pods - 1))
    site = Site("", {FAST: SPEED}, "", slots, pods, MINUTES)
    counts = []
    for replicate in range(max(2, settings.replicates // SELDOM)):
        game = Game(pods, {FAST: 1.0}, StopConfig(minutes=MINUTES), controls=0, env_steps=ENV_STEPS)
        rules, ledger = game.rules(settings, replicate), Ledger()
        counting = Counting(rules.updater, ledger)
        rules = replace(rules, updater=counting)
        play(rules, Hours(rules, replicate, site), site, ledger)
        counts.append(counting)
    found = {}
    for name, group in (("fast", FAST), ("others", SLOW)):
        tests = sum(each.tests[group] for each in counts)
        falls = sum(each.falls[group] for each in counts)
        found[f"tests of the {name} in a run"] = mean(float(each.tests[group]) for each in counts)
        found[f"replaced per test: {name}"] = share(n < falls for n in range(tests))
    return found

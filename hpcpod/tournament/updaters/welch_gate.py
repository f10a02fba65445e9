"""The gate for independent seeds: Welch's test in place of the paired one."""

from __future__ import annotations

from functools import partial

from hpcpod.config.schema import PopulationConfig
from hpcpod.records.records import Report, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.judgement import judged
from hpcpod.tournament.updaters.gate import outscored


class WelchGate:
    """The paired gate with Welch's test (1947) always, as if no two panels had common seeds.

    For environments whose seeds do not decide their episodes: pairs then share nothing, and to pair
    them costs half of the degrees of freedom. Where seeds do decide, what is common to two panels
    is not taken out of their difference, and the test finds less: of equal pods it beats fewer
    than 5 %, and truly worse ones later.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders of its cohort that beat it."""
        return judged(cohorts, report, partial(outscored, paired=False))

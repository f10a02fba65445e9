"""The paired gate: a test on common seeds, by episodes that did not choose whom to test."""

from __future__ import annotations

from hpcpod.config.schema import PopulationConfig
from hpcpod.records.records import Report, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.judgement import judged
from hpcpod.tournament.updaters.gate import outscored


class PairedGate:
    """A pod is beaten by a one-sided test at 5 % on episodes that did not choose whom to test.

    Its cohort is ranked by the even episodes of the panel. If it is among the worst eighth, it is
    tested on the odd ones against each of the best 30 %, k pods, at the level 0.05 / k: see
    ``gate.outscored``. So where all pods are equal, one that is tested is beaten by any of them
    with a probability of about 5 %, given panels of six episodes or more whose returns differ.
    Each of its rounds may be a test. A rival that stands in it by its cost, of another algorithm or
    on a far slower node, is one only with what it has shown since: else a slow pod's evaluation
    would be tried against a fast one's again and again, until it falls to it.
    """

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """Admit a pod's best evaluation; name the leaders of its cohort that beat it."""
        return judged(cohorts, report, outscored)

"""Collapse: a population whose leaders are all worse than one of them was."""

from __future__ import annotations

from hpcpod.records.records import Entry
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.generators.succession import listed
from hpcpod.tournament.statistics import chosen_interval, interval


def before_collapse(cohorts: Cohorts, cohort: Cohort) -> Entry | None:
    """The best row of an algorithm, if all leaders of a cohort are shown to have fallen behind it.

    The row was the best of all evaluations of the run, and the lower end of its interval allows for
    that; it must be above the upper end of each leader's, which are 95 % for all of them together.
    A row is gone back to no more often than its algorithm has pods: a run whose pods fall at the
    same round each time must come to an end.
    """
    row = next(listed(cohorts, cohort.algorithm), None)
    if row is None or row.round >= cohort.round or row.episodes < 2:  # one number shows nothing
        return None
    board, level = cohorts.board, 1 - 0.05 / len(cohort.best)
    low, _ = chosen_interval(row.mean, row.low, row.episodes, board.rounds, board.worst)
    ends = (interval(cohort.standings[name].returns, level)[1] for name in cohort.best)
    if not all(high < low for high in ends):
        return None
    children = sum(
        (pod.parent, pod.parent_round) == (row.pod, row.round) for pod in board.pods.values()
    )
    return row if children < cohorts.members[cohort.algorithm] else None

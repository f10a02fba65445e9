"""The contract of updaters as tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from hpcpod.records.records import Report, Verdict
from hpcpod.testing.populations import (
    Moment,
    check_kept,
    check_untouched,
    moments,
    rules_of,
    same_run,
    within,
)
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.judgement import Updater
from hpcpod.tournament.rules import Rules


class UpdaterContract:
    """The promises of ``hpcpod.tournament.judgement.Updater``, a test for each.

    A subclass whose name begins with ``Test`` is one updater. It is asked about moments of runs
    whose agents are numbers, and then plays a run of its own.
    """

    updater: ClassVar[str]
    """Its name, or its path as in ``population.updater``: ``"my_pkg.mod:Mine"``."""
    population: ClassVar[Mapping[str, str]] = {}
    """Other fields of ``population`` that it reads."""
    seconds: ClassVar[float] = 10.0
    """Seconds that it has for one verdict, about twelve pods."""

    def _made(self) -> Updater:
        return self._rules().updater

    def _rules(self) -> Rules:
        return rules_of(population={"updater": self.updater, **self.population})

    def _asked(self) -> list[tuple[Moment, Report]]:
        return [(each, each.report) for each in moments() if each.report is not None]

    def test_the_same_question_has_the_same_answer(self) -> None:
        """Another object gives it, too, whatever it was asked before: any slot may merge."""
        one, other = self._made(), self._made()
        backwards = reversed(self._asked())
        again = [other.judge(m.cohorts(reverse=True), report) for m, report in backwards]
        for (moment, report), second in zip(self._asked(), reversed(again), strict=True):
            first = one.judge(moment.cohorts(), report)
            assert first == second, f"{moment}: {first}, and then {second}"

    def test_it_changes_nothing(self) -> None:
        """The board and its cohorts are what they were."""
        updater = self._made()
        for (moment, report), (before, _) in zip(self._asked(), self._asked(), strict=True):
            cohorts = moment.cohorts()
            updater.judge(cohorts, report)
            check_untouched(moment, cohorts, before)

    def test_it_names_only_pods_that_were_compared(self) -> None:
        """They stand in the pod's cohort, and each has its evidence."""
        updater = self._made()
        for (moment, report), (before, _) in zip(self._asked(), self._asked(), strict=True):
            _check(before, before.cohorts(), updater.judge(moment.cohorts(), report))

    def test_pods_that_return_the_same_do_not_beat_each_other(self) -> None:
        """Nothing is to be found, whatever they cost."""
        updater = self._made()
        for moment, report in self._asked():
            level = _leveled(moment)
            verdict = updater.judge(level.cohorts(), replace(report, returns=(1.0, 2.0) * 4))
            assert not verdict.beaten_by, f"{moment}: it is beaten, though all return the same"

    def test_it_judges_in_time(self) -> None:
        """A merge waits for it, and all slots for the merge."""
        updater = self._made()
        for moment, report in self._asked():
            with within(self.seconds):
                updater.judge(moment.cohorts(), report)

    def test_a_run_by_it_fills_the_leaderboard_and_ends(self) -> None:
        """In whatever order reports come."""
        board = same_run(self._rules)
        assert board.entries, "nothing was admitted to the leaderboard"


def _check(moment: Moment, cohorts: Cohorts, verdict: Verdict) -> None:
    assert isinstance(verdict, Verdict), f"{moment}: it gives a {type(verdict).__name__}"
    check_kept(f"{moment}", verdict)
    beaten_by, pod = verdict.beaten_by, moment.pod
    if verdict.round == 0:
        assert not beaten_by, f"{moment}: it is beaten without a round at which it was compared"
        return
    rounds = [each.round for each in pod.history]
    assert verdict.round in rounds, f"{moment}: compared at round {verdict.round}, not of {rounds}"
    there = cohorts.cohort(pod.algorithm, verdict.round).standings.keys() - {pod.id}
    odd = [each for each in beaten_by if each not in there]
    assert not odd, f"{moment}: beaten by {', '.join(odd)}, not compared with it"
    assert len(set(beaten_by)) == len(beaten_by), f"{moment}: {beaten_by} names one twice"
    mute = [each for each in beaten_by if not verdict.evidence.get(each)]
    assert not mute, f"{moment}: no evidence of {', '.join(mute)}"
    assert verdict.evidence.keys() <= set(beaten_by), f"{moment}: evidence of pods not named"


def _leveled(moment: Moment) -> Moment:
    """The same moment with equal returns of all evaluations."""
    same = (1.0, 2.0) * 4
    pods = {
        name: replace(
            pod,
            history=tuple(replace(each, returns=same, estimate=1.5) for each in pod.history),
            milestones=tuple(replace(each, returns=same) for each in pod.milestones),
            best=None if pod.best is None else replace(pod.best, returns=same, estimate=1.5),
        )
        for name, pod in moment.board.pods.items()
    }
    return replace(moment, board=replace(moment.board, pods=pods), pod=pods[moment.pod.id])

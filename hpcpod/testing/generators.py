"""The contract of generators as tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import in_words
from hpcpod.records.records import Hyperparameters, PodState, Verdict, stable_hash
from hpcpod.testing.populations import (
    ROUNDS,
    SPACES,
    Moment,
    check_kept,
    check_untouched,
    moments,
    rules_of,
    same_run,
    within,
)
from hpcpod.tournament.cohorts import Cohort, Cohorts
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.proposals import Copy, Fresh, Generator
from hpcpod.tournament.statistics import mean
from hpcpod.tournament.stopping import leader

KEYS = range(40)


class GeneratorContract:
    """The promises of ``hpcpod.tournament.proposals.Generator``, a test for each.

    A subclass whose name begins with ``Test`` is one generator. It is asked about moments of runs
    whose agents are numbers, and then plays a run of its own.
    """

    generator: ClassVar[str]
    """Its name, or its path as in ``population.generator``: ``"my_pkg.mod:Mine"``."""
    population: ClassVar[Mapping[str, str]] = {}
    """Other fields of ``population`` that it reads."""
    seconds: ClassVar[float] = 10.0
    """Seconds that it has for one decision, about twelve pods."""

    def _made(self) -> Generator:
        return rules_of(population={"generator": self.generator, **self.population}).generator

    def _decided(self, generator: Generator, moment: Moment, cohorts: Cohorts) -> Any:
        if moment.report is None:
            return generator.replace(cohorts, moment.pod, moment.key)
        return generator.challenge(cohorts, moment.pod, moment.verdict, moment.key)

    def test_founders_lie_in_their_ranges(self) -> None:
        """A control's, too; and the same key gives the same founder."""
        generator, other = self._made(), self._made()
        for name, space in deepcopy(SPACES).items():
            for control in (False, True):
                for key in (stable_hash(name, number) for number in KEYS):
                    founder = generator.founder(space, control, key)
                    _check_values(f"a founder of {name}", founder, space)
                    again = other.founder(space, control, key)
                    assert founder == again, f"one key gives {founder}, and then {again}"

    def test_the_same_question_has_the_same_answer(self) -> None:
        """Another object gives it, too, whatever it was asked before: any slot may merge."""
        one, other = self._made(), self._made()
        again = [self._decided(other, m, m.cohorts(reverse=True)) for m in reversed(moments())]
        for moment, second in zip(moments(), reversed(again), strict=True):
            first = self._decided(one, moment, moment.cohorts())
            assert first == second, f"{moment}: {first}, and then {second}"

    def test_it_changes_nothing(self) -> None:
        """The board and its cohorts are what they were."""
        generator = self._made()
        for moment, before in zip(moments(), moments(), strict=True):
            cohorts = moment.cohorts()
            self._decided(generator, moment, cohorts)
            check_untouched(moment, cohorts, before)
        spaces = deepcopy(SPACES)
        for name, space in spaces.items():
            generator.founder(space, False, stable_hash(name))
            assert space == SPACES[name], f"a founder of {name}: its space has changed"

    def test_what_it_proposes_can_be_born(self) -> None:
        """Parents that are there, families that fit, hyperparameters inside their ranges."""
        generator = self._made()
        for moment, before in zip(moments(), moments(), strict=True):
            decision = self._decided(generator, moment, moment.cohorts())
            if decision is not None or moment.report is None:
                _check(before, decision)

    def test_controls_the_leader_and_the_last_of_an_algorithm_stay(self) -> None:
        """No updater may say otherwise. The leader is protected while nothing ranks above it."""
        generator = self._made()
        for moment in moments():
            if moment.report is None:
                continue
            cohorts = moment.cohorts()
            cohort = cohorts.cohort(moment.pod.algorithm, moment.report.round)
            for pod in _protected(cohorts, cohort):
                others = tuple(name for name in cohort.standings if name != pod.id)
                verdict = Verdict(True, moment.report.round, others, dict.fromkeys(others, "so"))
                decision = generator.challenge(moment.cohorts(), pod, verdict, moment.key)
                assert decision is None, f"{moment}: {pod.id} is replaced by {decision}"

    def test_it_decides_in_time(self) -> None:
        """A merge waits for it, and all slots for the merge."""
        generator = self._made()
        for moment in moments():
            with within(self.seconds):
                self._decided(generator, moment, moment.cohorts())

    def test_a_run_by_it_keeps_its_places_and_ends(self) -> None:
        """In whatever order reports come. It ends once no pod is beaten any more."""
        rules = {"generator": self.generator, "updater": "ranking", **self.population}
        board = same_run(lambda: rules_of(population=rules), peace=True)
        assert len(board.living) == 12, f"{len(board.living)} pods are left of 12"
        assert {pod.algorithm for pod in board.living} == {*SPACES}, "an algorithm is gone"


def _protected(cohorts: Cohorts, cohort: Cohort) -> list[PodState]:
    """Pods that nothing replaces while they live. The leader is one of them while it is the best of
    its cohort, by the half of the panel that ranks and by the whole."""
    first, returns = leader(cohorts.board), cohort.standings
    best = max(returns, key=lambda name: mean(returns[name].returns), default="")
    leads = first is not None and (best,) == cohort.best[:1] and best == first.pod
    return [
        pod
        for pod in cohorts.living.values()
        if pod.history and (not cohorts.spare(pod) or (leads and pod.id == best))
    ]


def _check(moment: Moment, decision: Copy | Fresh | None) -> None:
    """Fail if nothing can be born of a decision."""
    assert isinstance(decision, (Copy, Fresh)), f"{moment}: it gives {decision!r}"
    check_kept(f"{moment}", decision)
    board, rules = moment.board, moment.rules
    assert decision.evidence, f"{moment}: no reason is given (evidence)"
    try:
        child = Offspring(board, rules).add(decision, board.pods[moment.pod.id])
    except Exception as error:
        raise AssertionError(f"{moment}: {decision}: {in_words(error)}") from error
    where = f"{moment}: the child of {child.parent}"
    _check_values(where, child.hyperparameters, SPACES[child.algorithm])
    if isinstance(decision, Copy):
        parent = board.pods[decision.parent]
        assert decision.round < ROUNDS, f"{where} has nothing to train"
        before, after = parent.hyperparameters, child.hyperparameters
        changed = sorted(name for name in after if after[name] != before[name])
        assert sorted(decision.mutated) == changed, f"{where}: mutated is {decision.mutated}"


def _check_values(where: str, given: Hyperparameters, space: AlgorithmSpace) -> None:
    try:
        kept = json.loads(json.dumps(dict(given)))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{where}: {given} can't be kept as JSON: {error}") from error
    assert kept == given, f"{where}: {given} can't be kept as JSON"
    assert not space.misfit(given), f"{where}: {space.misfit(given)}"

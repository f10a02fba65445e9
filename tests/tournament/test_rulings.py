"""Decisions of rules: refused if they can't be carried out, and kept as data."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pytest

from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import UnusablePlugin
from hpcpod.records.records import Board, Hyperparameters, PairTest, PodState, Report, Verdict
from hpcpod.tournament import rulings
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.answers import answered_in
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.rulings import in_short
from tests.support.command_line import refusal
from tests.tournament.world import SPACE, by_number, failed, flat, play_round, report, rules

GAME = rules(8, controls=1, warmup_rounds=1)


class Updating:
    """An updater that does what a test says."""

    def __init__(self, judge: Callable[[Cohorts, Report], Any]) -> None:
        self.judge = judge


class Generating(GentleTruncation):
    """A generator whose copies are what a test says."""

    def __init__(self, answer: Callable[[Cohorts, PodState], Any]) -> None:
        super().__init__(GAME.config.population)
        self.answer = answer

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Any:
        return self.answer(cohorts, pod)

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Any:
        return self.answer(cohorts, dead)


def played(game: Rules, rounds: int) -> Board:
    """The board after some rounds, in which the first pods are worst for good."""
    board = first_board(game, 0.0)
    for now in range(rounds):
        reports = [report(order, flat(by_number(order), 16)) for order in orders(board)]
        board = fold(board, reports, game, now=float(now))
    return board


def sleeps(_cohorts: Cohorts, _report: Report) -> Verdict:
    time.sleep(5)
    return Verdict(True)


def raises(_cohorts: Cohorts, _report: Report) -> Verdict:
    raise KeyError("nobody")


def leaves(_cohorts: Cohorts, _report: Report) -> Verdict:
    raise SystemExit(3)


class Wordless(Exception):
    """An exception that can't say what it is."""

    def __str__(self) -> str:
        raise TypeError("no words")


def raises_wordless(_cohorts: Cohorts, _report: Report) -> Verdict:
    raise Wordless


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (raises, "KeyError: 'nobody'"),
        (raises_wordless, "Wordless: its own words can't be told: TypeError"),
        (leaves, "3"),
        (lambda c, r: None, "it gives a NoneType, not a Verdict"),
        (
            lambda c, r: Verdict(True, 1, ("p0099",)),
            "is beaten by 'p0099', which is no other pod",
        ),
        (lambda c, r: Verdict(True, 1, (r.pod,)), "which is no other pod"),
        (lambda c, r: Verdict(True, 1, (), {}, -3, -4), "it ranks p000"),
        (lambda c, r: Verdict(True, 1, (), {}, 9, 8), "number 9 of 8"),
        (lambda c, r: Verdict(True, 7), "at round 7, at which it has no evaluation"),
        (
            lambda c, r: Verdict(True, 1, ("p0008",), {"p0008": 3.2}),  # type: ignore[dict-item]
            "the board can't keep its Verdict: evidence.p0008: expected str, got 3.2",
        ),
    ],
)
def test_a_verdict_that_is_refused_is_the_default_s(
    judge: Callable[[Cohorts, Report], Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on as it would have with the default updater, but for the record of it."""
    with caplog.at_level(logging.WARNING):
        found = played(replace(GAME, updater=Updating(judge)), 3)
    without = played(GAME, 3)
    assert replace(found, decisions={}) == replace(without, decisions={})
    refused = [each for each in found.decisions.values() if each.kind == "refusal"]
    assert refused
    assert all(why in each.outcome for each in refused)
    assert "population.updater: its decision about p0001 is refused" in caplog.text


def test_an_updater_that_takes_long_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulings, "SECONDS", 0.05)
    game, begun = replace(GAME, updater=Updating(sleeps), silent=set()), time.monotonic()
    found = played(game, 2)
    assert time.monotonic() - begun < 3
    assert game.silent == {"updater"}
    assert replace(found, decisions={}) == replace(played(GAME, 2), decisions={})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda c, p: 7, "it gives a int, not a Copy or a Fresh"),
        (lambda c, p: _clone(c, p, "p0099"), "there is no pod 'p0099' to copy"),
        (lambda c, p: replace(_clone(c, p, "p0008"), round=77), "no checkpoint of round 77"),
        (lambda c, p: _with(_clone(c, p, "p0008"), gamma=7.0), "gamma = 7.0 is not within"),
        (lambda c, p: _with(_clone(c, p, "p0008"), colour=1), "colour is unknown"),
        (
            lambda c, p: _with(_clone(c, p, "p0008"), width=_other_width(c)),
            "a copy of p0008 must be a ",
        ),
        (lambda c, p: Fresh("sac", c.living["p0008"].hyperparameters), "no algorithm 'sac'"),
        (
            lambda c, p: replace(_clone(c, p, "p0008"), evidence=None),  # type: ignore[arg-type]
            "the board can't keep its Copy: evidence: expected str, got null",
        ),
    ],
)
def test_a_birth_that_is_refused_is_the_default_s(
    answer: Callable[[Cohorts, PodState], Any], why: str
) -> None:
    found = played(replace(GAME, generator=Generating(answer)), 3)
    assert replace(found, decisions={}) == replace(played(GAME, 3), decisions={})
    refused = [each for each in found.decisions.values() if each.kind == "refusal"]
    assert refused
    assert all(
        why in each.outcome or "it replaces p0001, which is a control" in each.outcome
        for each in refused
    )
    assert any(why in each.outcome for each in refused)
    births = [each for each in found.decisions.values() if each.kind == "birth"]
    assert {each.rule for each in births} == {"gentle_truncation"}
    assert {each.rule for each in refused} == {GAME.config.population.generator}


def raised_in_place(cohorts: Cohorts, pod: PodState) -> Copy:
    made = _clone(cohorts, pod, "p0008")
    made.hyperparameters["gamma"] = 0.95  # type: ignore[index]
    return made


def loses(cohorts: Cohorts, report: Report) -> Verdict:
    cohorts.living.clear()
    cohorts.board.pods.clear()  # type: ignore[attr-defined]
    raise KeyError(report.pod)


def test_what_a_rule_changes_in_what_it_is_shown_is_taken_back() -> None:
    """A parent trained on with the numbers that were meant for its copy, and pods were lost."""
    judging, bearing = Updating(loses), Generating(raised_in_place)
    found = played(replace(GAME, updater=judging, generator=bearing), 3)
    assert replace(found, decisions={}) == replace(played(GAME, 3), decisions={})
    refused = [each for each in found.decisions.values() if each.kind == "refusal"]
    assert {(each.rule, each.outcome.split("'")[0]) for each in refused} == {
        (GAME.config.population.updater, "KeyError: "),
        (GAME.config.population.generator, "it has changed what it was shown: change a copy"),
    }


def forgets(cohorts: Cohorts, report: Report) -> Verdict:
    algorithm = cohorts.board.pods[report.pod].algorithm
    cohorts.cohort(algorithm, report.round).standings.clear()  # type: ignore[attr-defined]
    return Verdict(True)


def test_a_rule_can_take_no_pod_out_of_a_comparison() -> None:
    """The default that decided instead ended every merge with a KeyError."""
    found = played(replace(GAME, updater=Updating(forgets)), 3)
    assert replace(found, decisions={}) == replace(played(GAME, 3), decisions={})
    [why] = {each.outcome for each in found.decisions.values() if each.kind == "refusal"}
    assert "mappingproxy" in why


def test_a_founder_that_changes_the_defaults_changes_a_copy() -> None:
    class Careless(GentleTruncation):
        def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
            space.defaults.update(gamma=0.95)  # type: ignore[attr-defined]
            return super().founder(space, control, key)

    found = first_board(replace(GAME, generator=Careless(GAME.config.population)), 0.0)
    assert found.pods["p0001"].hyperparameters["gamma"] == 0.95  # it is asked, and may say so
    assert SPACE.defaults["gamma"] == 0.99


def test_no_control_is_replaced_and_no_dead_pod_goes_without_a_successor() -> None:
    board = played(GAME, 2)
    game = replace(GAME, generator=Generating(lambda c, p: None), silent=set())
    births = orders(board)
    reports = [failed(births[0], "diverged", "nan")]
    after = fold(board, reports, game, now=9.0)
    (refused,) = [each for each in after.decisions.values() if each.kind == "refusal"]
    assert refused.outcome == "it names no successor of a pod that has failed"
    assert len(after.living) == 8


def _clone(cohorts: Cohorts, pod: PodState, parent: str) -> Copy:
    source = cohorts.board.pods.get(parent, pod)
    return Copy(parent, source.history[-1].round if source.history else 1,
                source.hyperparameters, (), "a test")  # fmt: skip


def _with(copy: Copy, **changes: object) -> Copy:
    hyperparameters: dict[str, Any] = {**copy.hyperparameters, **changes}
    return replace(copy, hyperparameters=hyperparameters)


def _other_width(cohorts: Cohorts) -> object:
    own = cohorts.living["p0008"].hyperparameters["width"]
    return next(each for each in SPACE.values["width"].values if each != own)  # type: ignore[union-attr]


def test_what_is_decided_is_on_the_board_with_its_numbers() -> None:
    before = played(GAME, 2)
    after = play_round(before, GAME, by_number)
    assert set(before.decisions).isdisjoint(after.decisions)
    comparisons = [each for each in after.decisions.values() if each.kind == "comparison"]
    assert len(comparisons) == 8
    worst = next(each for each in comparisons if each.numbers["place"] == 8)
    assert worst.numbers["among"] == 8
    assert (worst.rule, worst.round) == (GAME.config.population.updater, 3)
    assert after.pods[worst.pod].verdict == worst.outcome
    assert Board.from_document(after.document()) == after


def test_a_copy_s_decision_names_parent_place_and_test() -> None:
    board = first_board(GAME, 0.0)
    births = []
    for now in range(4):
        reports = [report(o, flat(by_number(o), 16)) for o in orders(board)]
        board = fold(board, reports, GAME, now=float(now))
        births += [each for each in board.decisions.values() if each.kind == "birth"]
    assert births
    child = board.pods[births[0].pod]
    assert births[0].others == (child.parent, child.replaces)
    assert births[0].round == child.parent_round
    assert child.evidence in births[0].outcome


def test_a_verdict_in_short() -> None:
    assert in_short(Verdict(True, 3, place=2, among=5)) == (
        "at round 3 it was number 2 of 5, not among those that are tested"
    )
    assert in_short(Verdict(True, 3, ("p2",), {"p2": "9 over 3"}, 5, 5)) == (
        "at round 3 it was number 5 of 5, and is beaten by p2: 9 over 3"
    )
    assert in_short(Verdict(True, 3)) == "at round 3"


@pytest.mark.parametrize(
    ("drawn", "why"),
    [
        (None, "it gives a NoneType, not a mapping"),
        ("gamma", "it gives a str, not a mapping"),
        ({"gamma": 1}, ""),
    ],
)
def test_a_generator_without_founders_is_refused_at_launch(drawn: Any, why: str) -> None:
    generator = Generating(lambda c, p: None)
    generator.founder = lambda space, control, key: drawn  # type: ignore[method-assign]
    said = rf"population.generator: .* no founder of ppo: {why}"
    with pytest.raises(UnusablePlugin, match=said):
        first_board(replace(GAME, generator=generator), 0.0)


def test_a_founder_that_no_board_keeps_is_refused_at_launch() -> None:
    class Exact(GentleTruncation):
        def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
            drawn: dict[str, Any] = {**super().founder(space, control, key)}
            return {**drawn, "clip": Fraction(drawn["clip"])}  # equal to the number in the space

    with pytest.raises(UnusablePlugin, match=r"no founder of ppo: the board can't keep its hyper"):
        first_board(replace(GAME, generator=Exact(GAME.config.population)), 0.0)


class Hanging(GentleTruncation):
    """A generator that draws no pod before a test has ended."""

    ended = threading.Event()

    def founder(self, space: AlgorithmSpace, control: bool, key: int) -> Hyperparameters:
        self.ended.wait()
        return super().founder(space, control, key)


def test_a_founder_that_hangs_is_refused_at_launch_and_leaves_no_run(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rulings, "FIRST_SECONDS", 0.05)
    name = f"{__name__}:Hanging"
    words = ("launch", "good.yaml", "--no-probe", "--set", f"population.generator={name}")
    assert refusal(capsys, *words).endswith(
        f"hpcpod: population.generator: {name} gives no founder of ppo: it took more than 0.05 s,"
        " the most that a first answer may take\n"
    )
    assert not (home / "runs" / "small").exists()
    Hanging.ended.set()


def test_what_ends_in_time_is_given_on() -> None:
    assert answered_in(5.0, lambda: 7) == 7
    with pytest.raises(TimeoutError):
        answered_in(0.01, lambda: time.sleep(1))
    with pytest.raises(ZeroDivisionError):
        answered_in(5.0, lambda: 1 / 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"gamma": 2}, "gamma = 2 is not within"),
        ({"learning_rate": "high"}, "learning_rate = 'high' is not within"),
        ({"learning_rate": True}, "learning_rate = True is not within"),
        ({"colour": 1}, "colour is unknown"),
    ],
)
def test_hyperparameters_that_no_pod_can_have(changes: Mapping[str, Any], why: str) -> None:
    own: Hyperparameters = next(iter(first_board(GAME, 0.0).pods.values())).hyperparameters
    assert isinstance(SPACE, AlgorithmSpace)
    assert SPACE.misfit({**own, **changes}).startswith(why)
    assert bool(SPACE.misfit({**own, **changes})) == bool(why)
    missing = {name: value for name, value in own.items() if name != "gamma"}
    assert SPACE.misfit(missing) == "gamma is missing"


class Ordering:
    """An allocator of NumPy's words."""

    def allocate(self, prospects: Prospects) -> Allocation:
        return Allocation(order=tuple(np.array([each.pod for each in prospects.candidates])))


def leaves_of(value: Any) -> Iterator[Any]:
    """All of a document that is no mapping and no list."""
    for each in value.values() if isinstance(value, Mapping) else value:
        if isinstance(each, Mapping | list | tuple):
            yield from leaves_of(each)
        else:
            yield each


def test_numbers_and_words_of_numpy_s_come_into_a_board_as_python_s() -> None:
    """A board in memory is held against the types of its fields, too: each merge ended by one."""

    def judge(cohorts: Cohorts, found: Report) -> Verdict:
        test = PairTest("p0008", np.float64(3.2), np.float64(0.1), np.float64(0.05), 16, True)
        return Verdict(True, found.round, (), {}, 1, 8, () if found.pod == "p0008" else (test,))

    def copied(cohorts: Cohorts, pod: PodState) -> Copy | None:
        if pod.id != "p0002" or cohorts.board.rounds < 24:
            return None
        parent = cohorts.board.pods["p0008"]
        last, said = parent.evaluations[-1].round, np.str_("it won")
        tried = {**parent.hyperparameters, "learning_rate": np.exp(np.log(1e-3))}
        return Copy("p0008", last, tried, ("learning_rate",), said)

    game = replace(GAME, updater=Updating(judge), generator=Generating(copied))
    game = replace(game, allocator=Ordering())
    for rounds in range(1, 6):
        board = played(game, rounds)
        assert [each for each in board.decisions.values() if each.kind == "refusal"] == []
        kinds = {type(each) for each in leaves_of(board.document())}
        assert kinds <= {str, int, float, bool, NoneType}
        assert Board.from_document(board.document()) == board
    assert board.pods["p0009"].parent == "p0008"

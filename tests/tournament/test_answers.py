"""Answers of rules whose values a board can't keep, each with the words for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import StopConfig
from hpcpod.records.records import PairTest, Verdict, decode, encode
from hpcpod.tournament.allocation import Allocation
from hpcpod.tournament.answers import taken_back, unkept, wrong_birth, wrong_verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, order_of, play_round, report, rules

TEST = PairTest("p0008", 3.2, 0.1, 0.05, 16, True)
ODD = replace(TEST, paired=np.bool_(True))  # type: ignore[arg-type]
VERDICT = Verdict(True, 1, ("p0008",), {"p0008": "3.2 over 16"}, 2, 8, (TEST,))
COPY = Copy("p0008", 3, {"gamma": 0.9}, ("gamma",), "it won")


@pytest.mark.parametrize(
    ("answer", "changes", "why"),
    [
        (VERDICT, {"evidence": {"p0008": 3.2}}, "evidence.p0008: expected str, got 3.2"),
        (VERDICT, {"round": "3"}, "round: expected int, got '3'"),
        (VERDICT, {"admit": 1}, "admit: expected bool, got 1"),
        (VERDICT, {"tests": (ODD,)}, "is a numpy.bool"),
        (COPY, {"evidence": None}, "evidence: expected str, got null"),
        (COPY, {"round": np.int64(3)}, "is a numpy.int64, which JSON has not"),
        (COPY, {"mutated": {"gamma"}}, "mutated: {'gamma'} is a builtins.set, which JSON has not"),
        (Fresh("ppo", {}), {"share": "all"}, "share: expected float, got 'all'"),
        (Allocation(), {"resting": {"p0001": 4.0}}, "resting.p0001: expected str, got 4.0"),
        (Allocation(), {"order": None}, "order: expected a list, got null"),
    ],
)
def test_a_value_of_another_type_than_its_field_s(answer: Any, changes: Any, why: str) -> None:
    assert unkept(answer) == ""
    said = unkept(replace(answer, **changes))
    [field] = changes
    assert said.startswith(f"the board can't keep its {type(answer).__name__}: {field}")
    assert why in said


def test_hyperparameters_of_numpy_s_are_refused_and_its_floats_are_floats() -> None:
    said = unkept({"epochs": np.int64(4)})
    assert said.startswith("the board can't keep its hyperparameters: epochs: ")
    assert said.endswith(" is a numpy.int64, which JSON has not")
    assert unkept({"gamma": np.float64(0.5), "epochs": 4}) == ""


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -1.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    game = rules(8, controls=0)
    board = first_board(game, 0.0)
    pod = board.pods["p0002"]
    fresh = Fresh("ppo", pod.hyperparameters, share=share)
    said = wrong_birth(
        fresh, Cohorts(board, game.config, game.algorithms), Offspring(board, game), pod
    )
    assert said == f"it gives a fresh pod a share of {share:g}"


def test_what_a_board_keeps_is_what_another_process_reads() -> None:
    numbers = replace(VERDICT, tests=(replace(TEST, mean=np.float64(3.2)),))
    assert unkept(numbers) == ""
    assert decode(Verdict, json.loads(json.dumps(encode(numbers)))) == VERDICT
    assert unkept(None) == unkept(7) == ""  # no answer: that is for others to say


def test_a_birth_that_comes_before_a_pod_s_share_says_how_much_that_is() -> None:
    game = rules(8, stop=StopConfig(minutes=160), controls=0)
    config = replace(game.config, cluster=ClusterConfig(slots=8))
    game = Rules.of(config, game.algorithms)
    board = first_board(game, 0.0)
    # a fourth of 160 minutes of 8 slots, for 8 pods, is 2,400 s; of the 2 that are at work 600
    cohorts = Cohorts(board, config, game.algorithms, slots=2.0)
    pod = board.pods["p0002"]
    fresh = Fresh("ppo", pod.hyperparameters)
    assert wrong_birth(fresh, cohorts, Offspring(board, game), pod) == (
        "it replaces p0002, which is a pod that has not had its first share of the budget, 600"
    )


def test_a_verdict_about_pods_that_were_not_compared_is_refused() -> None:
    game = rules(8, controls=0, warmup_rounds=0)
    board = play_round(first_board(game, 0.0), game, by_number)
    late = replace(board.pods["p0008"], history=(), milestones=())
    board = replace(board, pods={**board.pods, "p0008": late})
    cohorts = Cohorts(board, game.config, game.algorithms)
    asked = report(order_of(board, "p0003"))
    said = "it says that p0003 is beaten by 'p0008', which was not compared with it at round 1"
    named = Verdict(False, 1, ("p0008",), {"p0008": "3.2 over 16"}, 1, 8)
    assert wrong_verdict(named, cohorts, asked) == said
    tested = Verdict(False, 1, (), {}, 1, 8, (replace(TEST, rival="p0099"),))
    assert wrong_verdict(tested, cohorts, asked).endswith("'p0099', which is no other pod")
    fits = replace(named, beaten_by=("p0007",), evidence={"p0007": "3.2"})
    assert wrong_verdict(fits, cohorts, asked) == ""
    assert wrong_verdict(replace(fits, round=0), cohorts, asked).endswith("not compared with it")


@pytest.mark.parametrize("other", [np.int64(4), 4.0, np.zeros(2)])
def test_an_equal_number_of_another_type_is_taken_back_too(other: object) -> None:
    """A board has none of NumPy's, and an array has no truth."""
    shown: dict[str, object] = {"width": 4}
    before = [(shown, dict(shown))]
    shown["width"] = other
    assert taken_back(before)
    assert type(shown["width"]) is int
    assert not taken_back(before)

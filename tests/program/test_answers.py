"""Reports of a program in the tournament's form."""

from __future__ import annotations

import math
import random

import pytest

from hpcpod.program.answers import Answer, read_answer
from hpcpod.tournament.statistics import halves, mean, standard_error


def test_a_score_with_its_error_is_a_sample_with_just_that_mean_and_error() -> None:
    panel = Answer(score=(3.5, 0.25)).panel(16, 0, "panel", 1, "core")
    assert len(panel) == 16
    assert mean(panel) == pytest.approx(3.5, abs=1e-12)
    assert standard_error(panel) == pytest.approx(0.25, abs=1e-12)


def test_the_halves_of_such_a_sample_say_nothing_of_each_other() -> None:
    # X of N(0, 1); its halves are X + Z and X - Z: their covariance is Var X - Var Z = 0.
    truth, pairs = random.Random(1), []
    for i in range(4000):
        panel = Answer(score=(truth.gauss(0.0, 1.0), 1.0)).panel(8, "panel", i)
        first, second = halves(panel)
        pairs.append((mean(first), mean(second)))
    one, other = (mean([p[k] for p in pairs]) for k in (0, 1))
    spread = [math.sqrt(mean([(p[k] - m) ** 2 for p in pairs])) for k, m in ((0, one), (1, other))]
    covariance = mean([(p[0] - one) * (p[1] - other) for p in pairs])
    assert abs(covariance / (spread[0] * spread[1])) < 0.05  # three standard errors


def test_equal_names_give_equal_draws_and_others_others() -> None:
    answer = Answer(score=(1.0, 1.0))
    assert answer.panel(4, 0, "a") == answer.panel(4, 0, "a") != answer.panel(4, 0, "b")


def test_a_score_without_an_error_is_taken_where_no_test_is_made() -> None:
    answer = read_answer({"score": 2}, (1, 2, 3), minimize=True, needs_error=False)
    assert answer.panel(3, "x") == (-2.0, -2.0, -2.0)


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    given = {"a": 1, "b": None, "c": float("nan"), "d": True, "e": 2.5}
    answer = read_answer(
        {"returns": [1, 2], "metrics": given, "cost": 4}, (7, 8), minimize=False, needs_error=True
    )
    assert answer.metrics == {"a": 1.0, "e": 2.5, "cost": 4.0}
    assert answer.returns == (1.0, 2.0) and answer.saved and answer.steps is None

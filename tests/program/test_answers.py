"""Reports of a program in the tournament's form."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.program.answers import Answer, BadReport, needs_error, read_answer
from hpcpod.run.text import interval
from hpcpod.tournament.statistics import chosen_interval, halves, mean, measured, standard_error
from tests.program.programs import ADDS, mapping


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


def interval_of(report: dict[str, float]) -> tuple[float, float, int]:
    """The plain interval of a report as a row of the leaderboard has it, and its episodes."""
    answer = read_answer(report, range(8), minimize=False, needs_error=False)
    return measured(answer.panel(8, "x"), answer.metrics)


def test_a_score_without_an_error_is_one_number_and_has_no_interval() -> None:
    assert interval_of({"score": 2.0}) == (2.0, 2.0, 1)
    assert interval_of({"score": 2.0, "episodes": 500}) == (2.0, 2.0, 1)
    assert chosen_interval(2.0, 2.0, 1, 10, worst=-5.0) == (2.0, 2.0)
    assert interval(2.0, 2.0, 2.0, 1) == "2.0"


def test_a_score_has_the_interval_of_the_episodes_that_its_program_tells() -> None:
    # Student's 97.5 % quantile is 2.3646 with 7 degrees of freedom, and 4.3027 with 2.
    found = interval_of({"score": 2.0, "error": 0.5})
    assert found == pytest.approx((0.8177, 3.1823, 8), abs=1e-4)
    found = interval_of({"score": 2.0, "error": 0.5, "episodes": 3})
    assert found == pytest.approx((-0.1513, 4.1513, 3), abs=1e-4)
    for bad in (0, 2.5, "many"):
        with pytest.raises(BadReport, match="episodes, no whole number from 1 on"):
            interval_of({"score": 2.0, "episodes": bad})  # type: ignore[dict-item]


def test_a_returned_metric_can_not_pass_for_a_score() -> None:
    given = {"returns": [1, 2], "metrics": {"score_error": 0.5}}
    with pytest.raises(BadReport, match="the metric score_error, a name that hpcpod has another"):
        read_answer(given, (7, 8), minimize=False, needs_error=True)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"population": {"updater": "ranking"}}, False),
        ({}, True),
        ({"population": {"updater": "ranking"}, "program": {"scores": True}}, True),
        (
            {
                "population": {"updater": "ranking"}, "program": {"scores": True},
                "stop": {"target": 1.0},
            },
            True,
        ),
    ],
)  # fmt: skip
def test_an_error_is_needed_where_anything_is_tested(
    changes: dict[str, dict[str, Any]], needs: bool, tmp_path: Path
) -> None:
    whole = mapping(ADDS, tmp_path, **changes)
    assert needs_error(from_mapping(whole)) is needs


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    given = {"a": 1, "b": None, "c": float("nan"), "d": True, "e": 2.5}
    answer = read_answer(
        {"returns": [1, 2], "metrics": given, "cost": 4}, (7, 8), minimize=False, needs_error=True
    )
    assert answer.metrics == {"a": 1.0, "e": 2.5, "cost": 4.0}
    assert answer.returns == (1.0, 2.0) and answer.saved and answer.steps is None

"""Effects of a sweep: by hand, beside SciPy's, and where there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hpcpod.config.space import LogUniform
from hpcpod.run.sweeps.design import Cell, Factor
from hpcpod.run.sweeps.effects import Analysis, Effect, analyse
from hpcpod.run.sweeps.outcome import Outcome, tidy

Rows = list[tuple[Cell, Outcome]]


def ran(levels: dict[str, Any], scores: Sequence[float], number: int) -> Rows:
    """The runs of a combination, one for each score."""
    return [
        (Cell(f"{number:03}-{i}", number, i, levels), Outcome("finished", "env_steps", score))
        for i, score in enumerate(scores, 1)
    ]


def found(analysis: Analysis, *levels: str) -> Effect:
    [effect] = [each for each in analysis.effects if each.levels == levels]
    return effect


TWO = (Factor("a", ("x", "y")), Factor("b", (1, 2)))
BY_HAND = [
    *ran({"a": "x", "b": 1}, (1.0, 3.0), 1), *ran({"a": "x", "b": 2}, (5.0, 7.0), 2),
    *ran({"a": "y", "b": 1}, (10.0, 12.0), 3), *ran({"a": "y", "b": 2}, (18.0, 20.0), 4),
]  # fmt: skip
"""Means 2, 6, 11 and 19; in each cell a variance of 2."""


def test_two_factors_by_hand() -> None:
    [analysis] = analyse(TWO, BY_HAND)
    assert (analysis.freedom, analysis.runs) == (4, 8)
    assert analysis.mean == pytest.approx(9.5)
    assert analysis.spread == pytest.approx(2**0.5)
    assert analysis.remarks == ()
    values = {effect.levels: effect.value for effect in analysis.effects}
    assert values == {
        ("x",): pytest.approx(-5.5), ("y",): pytest.approx(5.5),
        ("1",): pytest.approx(-3.0), ("2",): pytest.approx(3.0),
        ("x", "1"): pytest.approx(1.0), ("x", "2"): pytest.approx(-1.0),
        ("y", "1"): pytest.approx(-1.0), ("y", "2"): pytest.approx(1.0),
    }  # fmt: skip
    half = 2.776445 * (2 / 8) ** 0.5  # t of 4 degrees at 97.5 %, times s / sqrt(8)
    for effect in analysis.effects:
        assert effect.high - effect.value == pytest.approx(half, rel=1e-6)
        assert effect.value - effect.low == pytest.approx(half, rel=1e-6)
        assert effect.shown is (abs(effect.value) > half)
    assert analysis.expected == pytest.approx(0.4)


def test_one_factor_of_two_levels_is_student_s_test() -> None:
    one, other = [3.0, 5.0, 4.5, 1.0], [6.0, 9.0, 7.0, 8.5]
    rows = ran({"a": "x"}, one, 1) + ran({"a": "y"}, other, 2)
    [analysis] = analyse((Factor("a", ("x", "y")),), rows)
    theirs = stats.ttest_ind(other, one).confidence_interval(0.95)
    effect = found(analysis, "y")
    assert (2 * effect.low, 2 * effect.high) == pytest.approx((theirs.low, theirs.high))


def test_a_range_is_a_line_through_its_logarithm() -> None:
    rates, scores = [1e-4, 3e-4, 1e-3, 5e-3, 1e-2], [1.0, 2.5, 3.0, 6.0, 5.5]
    rows = [row for i, (rate, score) in enumerate(zip(rates, scores, strict=True), 1)
            for row in ran({"lr": rate}, [score], i)]  # fmt: skip
    [analysis] = analyse((Factor("lr", range=LogUniform(1e-4, 1e-2)),), rows)
    line = stats.linregress(np.log10(rates), scores)
    effect = found(analysis, "0.01, against the middle")
    half = stats.t.ppf(0.975, 3) * line.stderr
    assert effect.value == pytest.approx(line.slope)  # half of the range is a decade
    assert (effect.low, effect.high) == pytest.approx((line.slope - half, line.slope + half))


def test_levels_count_alike_though_they_have_unequal_runs() -> None:
    rows = ran({"a": "x", "b": 1}, [0, 2, 1, 1], 1) + ran({"a": "x", "b": 2}, [4], 2)
    rows += ran({"a": "y", "b": 1}, [10], 3) + ran({"a": "y", "b": 2}, [20, 22], 4)
    [analysis] = analyse(TWO, rows)
    assert analysis.mean == pytest.approx((1 + 4 + 10 + 21) / 4)
    assert found(analysis, "y").value == pytest.approx((10 + 21) / 2 - 9)


def test_environments_are_analysed_apart() -> None:
    factors = (Factor("env.id", ("A", "B")), Factor("a", ("x", "y")))
    rows: Rows = []
    for number, (env, a) in enumerate(product("AB", "xy"), 1):
        base = (100.0 if env == "A" else -500.0) + (7.0 if (env, a) == ("A", "x") else 0.0)
        rows += ran({"env.id": env, "a": a}, [base, base + 1], number)
    first, second = analyse(factors, rows)
    assert (first.env, second.env) == ("A", "B")
    assert found(first, "x").value == pytest.approx(3.5)
    assert found(second, "x").value == 0.0  # not what arithmetic leaves of it
    assert {effect.factors for effect in first.effects} == {("a",)}


def test_one_run_of_each_cell_leaves_interactions_for_chance_and_says_so() -> None:
    rows = [row for row in BY_HAND if row[0].replicate == 1]
    [analysis] = analyse(TWO, rows)
    assert {len(effect.factors) for effect in analysis.effects} == {1}
    assert analysis.freedom == 1
    assert "Interactions can't be told from chance" in analysis.remarks[0]
    assert "Each cell has one run" in analysis.remarks[1]


def test_without_a_degree_of_freedom_there_is_no_interval() -> None:
    rows = ran({"a": "x"}, [1.0], 1) + ran({"a": "y"}, [2.0], 2)
    [analysis] = analyse((Factor("a", ("x", "y")),), rows)
    assert analysis.effects == ()
    assert analysis.remarks == ("There are too few runs for intervals: give the sweep seeds.",)


def test_runs_that_have_not_finished_do_not_count_and_that_is_said() -> None:
    waiting = (Cell("005-1", 1, 3, {"a": "x", "b": 1}), Outcome("running", score=1000.0))
    stopped = (Cell("006-1", 1, 4, {"a": "x", "b": 1}), Outcome("failed", "user", 1000.0))
    [analysis] = analyse(TWO, [*BY_HAND, waiting, stopped])
    assert analysis.mean == pytest.approx(9.5)
    assert "8 of 10 runs have finished with a score: the others don't count." in analysis.remarks
    [nothing] = analyse(TWO, [waiting])
    assert (nothing.runs, nothing.effects) == (0, ())


def test_a_field_that_some_cells_have_no_use_for_counts_where_it_is() -> None:
    factors = (Factor("algorithm", ("ppo", "sac")), Factor("tau", (0.1, 0.2)))
    rows = ran({"algorithm": "ppo"}, [1, 3], 1)
    rows += ran({"algorithm": "sac", "tau": 0.1}, [10, 12], 2)
    rows += ran({"algorithm": "sac", "tau": 0.2}, [14, 16], 3)
    [analysis] = analyse(factors, rows)
    assert found(analysis, "0.2").value == pytest.approx(2.0)
    assert found(analysis, "sac").value == pytest.approx((13 - 2) / 2)


def test_a_field_of_one_algorithm_takes_no_other_interaction_away() -> None:
    factors = (Factor("algorithm", ("ppo", "sac")), Factor("tau", (0.1, 0.2)), TWO[1])
    means = {("ppo", None): (1, 3), ("sac", 0.1): (10, 20), ("sac", 0.2): (14, 28)}
    rows: Rows = []
    for (name, tau), pair in means.items():
        for b, mean in enumerate(pair, 1):
            levels = {"algorithm": name, "b": b, **({} if tau is None else {"tau": tau})}
            rows += ran(levels, [mean - 1, mean + 1], len(rows))
    [analysis] = analyse(factors, rows)
    # Of b: PPO 1, SAC (5 + 7) / 2; so with the algorithm (6 - 1) / 2, with tau (7 - 5) / 2.
    assert found(analysis, "sac", "2").value == pytest.approx(2.5)
    assert found(analysis, "0.2", "2").value == pytest.approx(1.0)
    assert ("algorithm", "tau") not in {effect.factors for effect in analysis.effects}
    assert analysis.remarks == (
        "The interaction of algorithm with tau can't be told: not all of their levels come"
        " together.",
    )
    assert analysis.freedom == 6
    assert analysis.spread == pytest.approx(2**0.5)


THREE = (*TWO, Factor("c", (True, False)))


def three(scores: Callable[[int], Sequence[float]]) -> Rows:
    """Runs of all levels of three fields; ``scores`` is called with 1 or -1, by the parity of a
    combination."""
    combos = enumerate(product((0, 1), repeat=3), 1)
    return [row for number, (i, j, k) in combos
            for row in ran({"a": "xy"[i], "b": (1, 2)[j], "c": (True, False)[k]},
                           scores((-1) ** (i + j + k)), number)]  # fmt: skip


def test_where_all_have_two_runs_no_interaction_of_three_is_taken_for_chance() -> None:
    [analysis] = analyse(THREE, three(lambda sign: (10 * sign - 1, 10 * sign + 1)))
    assert analysis.remarks == ()
    assert analysis.freedom == 8
    assert analysis.spread == pytest.approx(2**0.5)
    half = 2.306004 * (2 / 16) ** 0.5  # t of 8 degrees at 97.5 %, times s / sqrt(16)
    for effect in analysis.effects:
        assert effect.value == pytest.approx(0.0, abs=1e-9)
        assert effect.high - effect.value == pytest.approx(half, rel=1e-6)


def test_where_a_combination_has_one_run_it_is_and_that_is_said() -> None:
    rows = three(lambda sign: (10 * sign - 1, 10 * sign + 1))[1:]
    [analysis] = analyse(THREE, rows)
    assert (analysis.freedom, analysis.spread > 10) == (8, True)
    [remark] = analysis.remarks
    assert remark.endswith("leave: not every combination of levels has two runs.")


def test_levels_of_three_fields_count_alike_though_they_have_unequal_runs() -> None:
    dice = iter([3, 2, 4, 2, 2, 5, 2, 3])
    rows = three(lambda sign: [50.0 * sign + i % 2 for i in range(2 * next(dice))])
    [analysis] = analyse(THREE, rows)
    assert analysis.freedom == 2 * 23 - 8
    assert [effect.value for effect in analysis.effects] == pytest.approx([0.0] * 18, abs=1e-9)


@pytest.mark.long
def test_of_unequal_runs_with_an_interaction_of_three_the_level_holds() -> None:
    dice = np.random.default_rng(0)
    shown = every = 0
    for _ in range(300):
        runs = iter([2, 3, 2, 4, 2, 2, 3, 2])
        rows = three(lambda sign: list(dice.normal(100 + 40 * sign, 15, next(runs))))  # noqa: B023
        [analysis] = analyse(THREE, rows)
        shown += sum(effect.shown for effect in analysis.effects)
        every += len(analysis.effects)
    # Levels of two have one interval: 6 independent ones of a sweep know 5 % to 0.5 % or so.
    assert every == 300 * 18
    assert 0.035 < shown / every < 0.065


@pytest.mark.long
def test_equal_cells_are_said_to_differ_as_often_as_the_level_says() -> None:
    dice = np.random.default_rng(0)
    factors = (Factor("a", ("x", "y", "z")), Factor("b", (1, 2)))
    shown = every = 0
    for _ in range(400):
        rows: Rows = []
        for number, (a, b) in enumerate(product("xyz", (1, 2)), 1):
            rows += ran({"a": a, "b": b}, list(dice.normal(100, 15, 2)), number)
        [analysis] = analyse(factors, rows)
        shown += sum(effect.shown for effect in analysis.effects)
        every += len(analysis.effects)
    # 11 intervals of a sweep go together: 400 sweeps know the rate of 5 % to 0.7 % or so.
    assert every == 400 * 11
    assert 0.03 < shown / every < 0.07


def test_null_is_a_level_like_another() -> None:
    factors = (Factor("a", (None, True)),)
    rows = ran({"a": None}, [1, 3], 1) + ran({"a": True}, [5, 7], 2)
    [analysis] = analyse(factors, rows)
    assert found(analysis, "null").value == pytest.approx(-2.0)
    assert [row[3] for row in tidy(factors, rows)[1]] == ["null", "null", True, True]


def test_the_table_has_a_row_for_each_run() -> None:
    heads, cells = tidy(TWO, BY_HAND)
    assert heads[:7] == ["run", "cell", "seed", "a", "b", "fate", "reason"]
    assert cells[0][:8] == ["001-1", 1, 1, "x", 1, "finished", "env_steps", 1.0]
    assert len(cells) == 8 and all(len(row) == len(heads) for row in cells)

"""The design of a sweep, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hpcpod.config.loader import from_plain
from hpcpod.config.sweep import SweepConfig
from hpcpod.run.sweeps.design import combinations, combine, factors_of, label


def design(**section: Any) -> tuple[SweepConfig, list[Any]]:
    sweep = from_plain(SweepConfig, section, "the sweep")
    factors, problems = factors_of(sweep)
    assert problems == []
    return sweep, factors


def drawn(base: dict[str, Any] | None = None, seed: int = 0, **section: Any) -> list[list[Any]]:
    sweep, factors = design(**section)
    rows = list(combine(sweep, factors, base or {}, seed))
    assert len(rows) == combinations(sweep, factors, base or {})
    return [list(row.values()) for row in rows]


def test_a_factorial_has_every_combination_once() -> None:
    over = {"env.id": ["A", "B"], "agents.ppo.gamma": [0.9, 0.99, 0.999]}
    assert drawn(over=over) == [
        ["A", 0.9], ["A", 0.99], ["A", 0.999], ["B", 0.9], ["B", 0.99], ["B", 0.999],
    ]  # fmt: skip


def test_one_at_a_time_differs_from_the_file_s_own_values_in_one_field() -> None:
    over = {"env.id": ["A", "B"], "agents.ppo.gamma": [0.9, 0.99]}
    section: dict[str, Any] = {"over": over, "design": "one_at_a_time"}
    assert drawn({"agents.ppo.gamma": 0.99}, **section) == [["A", 0.99], ["B", 0.99], ["A", 0.9]]
    # A value of the file's own that is in no list is the baseline all the same.
    assert drawn({"agents.ppo.gamma": 0.5}, **section) == [
        ["A", 0.5], ["B", 0.5], ["A", 0.9], ["A", 0.99],
    ]  # fmt: skip


def test_a_random_design_has_each_level_equally_often_and_each_part_of_a_range_once() -> None:
    over = {
        "population.generator": ["ranking", "pb2"],
        "agents.ppo.learning_rate": {"log_uniform": [1e-4, 1e0]},
        "agents.ppo.epochs": {"int": [1, 4]},
    }
    rows = drawn(over=over, design="random", cells=8, seed=3)
    names, rates, epochs = zip(*rows, strict=True)
    assert sorted(names) == ["pb2"] * 4 + ["ranking"] * 4
    assert sorted(epochs) == [1, 1, 2, 2, 3, 3, 4, 4]
    edges = [10 ** (-4 + i / 2) for i in range(9)]  # eight equal parts of four decades
    parts = zip(sorted(rates), edges[:-1], edges[1:], strict=True)
    assert all(low <= rate <= high for rate, low, high in parts)
    assert rows == drawn(over=over, design="random", cells=8, seed=3)
    assert rows != drawn(over=over, design="random", cells=8, seed=4)


def test_a_million_combinations_are_counted_and_not_made() -> None:
    over = {f"agents.ppo.x{i}": list(range(10)) for i in range(6)}
    sweep, factors = design(over=over)
    assert combinations(sweep, factors, {}) == 1_000_000
    assert next(iter(combine(sweep, factors, {}, 0)))["agents.ppo.x5"] == 0


def test_all_that_is_wrong_with_factors_is_said_at_once() -> None:
    over = {
        "name": ["a", "b"], "cluster.slots": [1, 2], "env..id": ["A", "B"], "round": 3,
        "stop.rounds": [5], "seed": [1, 2], "agents.ppo.gamma": [0.9, 0.9],
        "agents.ppo.clip": {"uniform": [0.1, 0.3]}, "env": [{}, {"id": "A"}], "env.id": ["A", "B"],
        "agents.ppo.x": {"uniform": [2, 1]},
    }  # fmt: skip
    _, problems = factors_of(from_plain(SweepConfig, {"over": over}, "the sweep"))
    assert problems == [
        "sweep.over.name: name can't differ between the cells of a sweep",
        "sweep.over.cluster.slots: cluster can't differ between the cells of a sweep",
        "sweep.over.env..id: expected a field's path, such as agents.ppo.gamma",
        "sweep.over.round: expected a list of levels, or a range, got 3",
        "sweep.over.stop.rounds: expected at least two levels, all different, got [5]",
        "sweep.over.seed: seed can't differ between the cells of a sweep",
        "sweep.over.agents.ppo.gamma: expected at least two levels, all different, got [0.9, 0.9]",
        "sweep.over.agents.ppo.clip: a range is for design random; name its levels in a list",
        "sweep.over.env.id: another factor has this field, or one in it, already",
        "sweep.over.agents.ppo.x.uniform: the range's ends are swapped: [2.0, 1.0];"
        " write [1.0, 2.0]",
    ]


@pytest.mark.parametrize("section, said", [
    ({"over": {}}, "over must name at least one field"),
    ({"over": {"env.id": ["A", "B"]}, "design": "random"}, "design random needs cells"),
    ({"over": {"env.id": ["A", "B"]}, "cells": 4}, "cells is for design random"),
    ({"over": {"env.id": ["A", "B"]}, "seeds": 0}, "seeds"),
])  # fmt: skip
def test_a_section_that_contradicts_itself_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said):
        from_plain(SweepConfig, section, "the sweep")


def test_a_level_is_one_line_of_a_table() -> None:
    assert [label(each) for each in ("A", 0.1, True, None, {"min": 1}, [1, "b"])] == [
        "A", "0.1", "true", "null", "{min: 1}", "[1, b]",
    ]  # fmt: skip

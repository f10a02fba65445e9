"""Remarks on a second aim that nothing looks at."""

from __future__ import annotations

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.remarks import remarks
from tests.support.small_runs import mapping


@pytest.mark.parametrize(
    ("updater", "cost", "idle"),
    [
        ("paired_gate", "kl", True), ("ranking", "kl", True), ("pareto", "kl", False),
        ("my_pkg.mod:Mine", "kl", False), ("paired_gate", "seconds", False),
    ],
)  # fmt: skip
def test_a_cost_that_no_updater_compares_is_said(updater: str, cost: str, idle: bool) -> None:
    config = from_mapping(mapping(population={"updater": updater, "cost": cost}))
    said = [each for each in remarks(config, {}, None) if each.startswith("population.cost")]
    assert said == idle * [
        f"population.cost: {updater} compares returns alone, so kl counts for nothing; take"
        " updater: pareto, or leave cost out"
    ]

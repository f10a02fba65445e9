"""Remarks on fields that nothing looks at, such as a second aim."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(
    ("idle", "beside", "words"),
    [
        ({"quorum": 0.5}, {"scheme": "generational"}, "in a tournament no pod waits for another"),
        ({"deadline": 2.0}, {"scheme": "generational"}, "take scheme: generational, or leave"),
        ({"second_looks": 0.2, "updater": "welch_gate"}, {"updater": "paired_gate"},
         "welch_gate makes no test on common seeds, so none is made again"),
        ({"second_looks": 0.2, "updater": "ranking"}, {"updater": "pareto"}, "take updater"),
    ],
)  # fmt: skip
def test_a_field_beside_a_rule_that_ignores_it_is_said(
    idle: dict[str, Any], beside: dict[str, Any], words: str
) -> None:
    field, found = f"population.{next(iter(idle))}: ", []
    for population in (idle, {**idle, **beside}):
        config = from_mapping(mapping(population=population))
        said = remarks(config, {}, None)
        found.append([each.removeprefix(field) for each in said if each.startswith(field)])
    assert [len(each) for each in found] == [1, 0]
    assert words in found[0][0]


def test_episodes_of_snapshots_that_are_never_taken_are_said() -> None:
    for snapshots in ({"episodes": 8}, {"episodes": 8, "seconds": 60}, {}):
        said = remarks(from_mapping(mapping(snapshots=snapshots)), {}, None)
        idle = [each for each in said if each.startswith("snapshots.episodes")]
        assert len(idle) == (snapshots == {"episodes": 8})

"""The benchmark of copies on real tasks: its table by hand, and the runs that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from evolution import Run, config_of, orders, parse, render

from hpcpod.config.loader import from_mapping


def runs(way: str, *scores: float) -> list[Run]:
    return [Run("Task-v0", way, seed, score, 2, 1.0) for seed, score in enumerate(scores, 1)]


def test_the_table_by_hand() -> None:
    table = render(
        [
            *runs("no copies", 2.0, 4.0), *runs("copies", 3.0, 7.0, 9.0),
            *runs("before", 5.0, 5.0), *runs("before, no copies", 5.0, 1.0),
        ]
    )  # fmt: skip
    rows = {line.split(" | ")[1]: line.split(" | ")[2:5] for line in table.splitlines()[2:]}
    assert rows["no copies"] == ["2, 4", "3 ± 1", ""]
    # Of the two seeds that both have: 1 and 3 more.
    assert rows["copies"] == ["3, 7, 9", "6 ± 2", "2 ± 1"]
    # Beside its own checkout's: 0 and 4 more.
    assert rows["before"][2] == "2 ± 2"
    assert rows["before, no copies"] == ["5, 1", "3 ± 2", ""]


def test_another_checkout_has_ways_of_its_own_and_each_seed_comes_before_the_next() -> None:
    alone = list(orders(parse(["--tasks", "A", "--seeds", "2"])))
    assert alone == [("A", w, s) for s in (1, 2) for w in ("copies", "no copies", "looser gate")]
    beside = orders(parse(["--tasks", "A", "--seeds", "1", "--against", str(Path.cwd())]))
    assert [way for _, way, _ in beside][3:] == ["before", "before, no copies"]


@pytest.mark.parametrize("way", ["copies", "no copies", "looser gate"])
def test_each_way_is_a_configuration(way: str) -> None:
    assert from_mapping(config_of("Acrobot-v1", way, 3)).population.pods.max == 8

"""The benchmark by the clock: its runs of ours, and its table by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from paper import TASKS, WAYS, Run, parse, render, wanted
from paper_runs import hpcpod_run
from paper_runs.order import Order

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping


def order(way: str, began: float = 0.0) -> Order:
    return Order(way, TASKS[0], 1, 80.0, 8, 2, 256, 32, "/nowhere", began)


@pytest.mark.parametrize(
    ("way", "pods"), [("tournament ppo", 4), ("tournament ppo+sac", 4), ("vanilla ppo", 1)]
)
@pytest.mark.parametrize("task", TASKS)
def test_each_run_of_ours_has_all_cores_and_the_same_networks(
    way: str, pods: int, task: str
) -> None:
    config = from_mapping(hpcpod_run.config(replace(order(way), env=task)))
    assert (config.population.pods.max, config.env.id) == (pods, task)
    assert (config.resources.cpus_per_pod, config.cluster.slots) == (2, 1)
    spaces = resolve_algorithms(config)
    assert all(space.values["hidden"] == 256 for space in spaces.values())
    assert set(spaces) == ({"ppo", "sac"} if way.endswith("sac") else {"ppo"})


def test_snapshots_are_due_at_equal_times() -> None:
    long_ago = order("sb3")  # it began in 1970: all eight are due, and no ninth is asked for
    assert all(long_ago.due(taken) for taken in range(8))
    assert not order("sb3", began=1e12).due(0)


def test_a_seed_of_all_ways_comes_before_the_next_seed() -> None:
    options = parse(["--tasks", "Ant-v5", "--ways", "sb3,vanilla ppo", "--seeds", "2"])
    assert list(wanted(options)) == [
        ("Ant-v5", "sb3", 1), ("Ant-v5", "vanilla ppo", 1),
        ("Ant-v5", "sb3", 2), ("Ant-v5", "vanilla ppo", 2),
    ]  # fmt: skip
    assert set(options.ways) <= set(WAYS)


def test_the_table_by_hand() -> None:
    table = render(
        [
            Run("Ant-v5", "sb3", 1, 2.0, [(61.0, 1000, 10.0, 1.0), (121.0, 2000, 20.0, 1.0)]),
            Run("Ant-v5", "sb3", 2, 2.0, [(61.0, 1000, 14.0, 1.0), (121.0, 2200, 40.0, 1.0)]),
            # It had no policy after the first minute.
            Run("Ant-v5", "vanilla ppo", 1, 2.0, [(120.0, 5000, 7.0, 1.0)]),
            Run("Ant-v5", "rllib", 1, 2.0, [], "exit 1"),
        ]
    )
    assert table.splitlines() == [
        "| Ant-v5 | 61 s | 121 s | env steps | seeds |",
        "|---|---|---|---|---|",
        "| vanilla ppo |  | 7 | 5,000 | 1 |",
        "| rllib |  |  |  | 0 |",
        "| sb3 | 12 ± 2 | 30 ± 10 | 2,100 ± 100 | 2 |",
    ]


def test_where_nobody_had_a_policy_at_first_the_table_begins_at_the_first_one() -> None:
    late = Run("Ant-v5", "sb3", 1, 2.0, [(80.0, 10, 1.0, 1.0), (120.0, 20, 2.0, 1.0)])  # of three
    assert render([late]).startswith("| Ant-v5 | 80 s | 120 s |")


@pytest.mark.parametrize("words", ["--minutes -1", "--table", "--json /nonexistent --table"])
def test_what_can_not_be_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words.split())
    assert ended.value.code == 2
    assert ("--minutes" if "-1" in words else "--json") in capsys.readouterr().err

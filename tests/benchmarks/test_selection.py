"""The short version of ``benchmarks/selection.py``: what the rules promise, and its own parts.

Tests named ``test_promise_...`` hold what the tournament says of itself, on populations whose
truth is known. All but those of power, of copies that help and of a fast algorithm's places fail on
commit 72894fe, whose gate tested on the returns that it had chosen by.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path

import numpy as np
import pytest
import selection
from selection_scenarios import (
    budget,
    components,
    equal,
    fast_node,
    first_row,
    schemes,
    seeds,
    sparse,
    speeds,
    target,
    trap,
    unseen,
)
from selection_scenarios.measures import Number, Row, mean, render, share
from selection_scenarios.speeds import SLOW, Site
from selection_scenarios.world import SPACE, Settings

ROOT = Path(__file__).parents[2]
GATE = 0.05
ALPHA = 0.05
MINUTES = 100.0
MIXED = Site("mixed", speeds.SPEEDS, "sac", minutes=MINUTES)
SLOW_NODE = Site("slow", {"ppo": 500.0}, "ppo", (0.25, *[1.0] * 11), minutes=MINUTES)


def by_case(site: Site) -> dict[str, dict[str, Number]]:
    rows = list(speeds.site_rows(site, Settings(2)))
    return {row.case.removeprefix(f"{site.name}: "): dict(row.numbers) for row in rows}


@pytest.mark.parametrize("pods", [4, 8, 16])
def test_promise_of_equal_pods_few_are_replaced(pods: int) -> None:
    numbers = equal.false_copies(pods, Settings(20))
    tests = 20 * (equal.ROUNDS - equal.FIRST) * ceil(pods / 8)
    nominal = sqrt(GATE * (1 - GATE) / tests)
    measured = numbers["false copies per tested pod"]
    assert measured.value <= GATE + 2 * max(nominal, measured.error)


def test_promise_of_equal_pods_few_are_replaced_where_close_tests_have_a_second_look() -> None:
    numbers = equal.false_copies(8, Settings(20, second_looks=1.0))
    measured = numbers["false copies per tested pod"]
    assert 0 < measured.value <= GATE + 2 * sqrt(GATE * (1 - GATE) / 200)


def test_promise_of_power_second_looks_find_a_pod_that_is_a_little_worse_sooner() -> None:
    name = "replaced in its first comparable round"
    one, two = (equal.power(8, 0.5, Settings(30, second_looks=s))[name] for s in (0.0, 1.0))
    assert two.value > one.value + 0.15  # of 60 runs 0.82 for 0.47


@pytest.mark.parametrize("uneven", [0.0, 1.0])
@pytest.mark.parametrize("spread", [0.0, 5.0, 20.0])
def test_promise_of_the_best_configuration_half_of_its_luck_is_not_believed(
    spread: float, uneven: float
) -> None:
    numbers = seeds.best(spread, Settings(200), uneven)
    estimate, lucky = numbers["estimate less truth"], numbers["mean less truth"]
    # of 1,600 runs 0.38, 0.15 and 0.12 of it, and where luck deviates, too, 0.27, 0.18 and -0.17
    assert estimate.value < 0.5 * lucky.value
    too_little = 0.1 * seeds.LUCK if uneven else 0.0  # 1.1 of 1,600 runs where truths deviate by 20
    assert estimate.value > -too_little - 2 * estimate.error
    assert numbers["truth within 1.96 errors"].value > 0.84


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(budget.EVERY))
def test_promise_of_a_small_budget_the_default_delivers_what_the_best_rule_does(name: str) -> None:
    # of four runs of so few pods one that fails is most of the error
    world, runs = budget.EVERY[name], Settings(12 if name == "few" else 4)
    others = ("ocba",) if name == "many" else ("ocba", "thompson")  # 10 s of processor time
    auto, fair, *rest = (
        budget.outcome(world, allocator, True, runs)["true score delivered"]
        for allocator in ("auto", "fair", *others)
    )
    if name != "stuck":  # few find anything there
        assert auto.low > fair.high
    best = max(rest, key=lambda number: number.value)
    noise = 3 * math.hypot(best.error, auto.error)
    # Where all pods are equal, a rule that trains one of them alone is 1.7 ahead (RESULTS, by 100
    # runs), so by four of them a bound of 3 % was met on one machine and missed on another.
    ahead = 1.7 if name == "flat" else 0.0
    assert auto.value > best.value - max(ahead + noise, 0.03 * best.value)


@pytest.mark.long
@pytest.mark.parametrize("name", ["late", "trap", "brittle", "rare failures"])
def test_promise_of_a_small_budget_no_other_generator_or_updater_delivers_more(name: str) -> None:
    runs, delivered = Settings(6), "true score delivered"
    others = [
        *(replace(runs, generator=generator) for generator in ("random_search", "ranking")),
        *(replace(runs, updater=updater) for updater in ("paired_gate", "welch_gate", "ranking")),
    ]
    default, *rest = (
        budget.outcome(budget.EVERY[name], "auto", False, played)[delivered]
        for played in (runs, *others)
    )
    best = max(rest, key=lambda number: number.value)
    assert default.value > best.value - 3 * math.hypot(best.error, default.error)


@pytest.mark.parametrize("faster", [1.5, 4.0])
def test_promise_of_equal_pods_on_a_fast_node_few_are_replaced(faster: float) -> None:
    numbers = fast_node.numbers(8, faster, Settings(80))
    assert numbers["tests of the fast in a run"].value >= 10
    for name in ("fast", "others"):
        measured = numbers[f"replaced per test: {name}"]
        nominal = sqrt(GATE * (1 - GATE) / measured.count)
        assert measured.value <= GATE + 2 * nominal, name


def test_promise_of_power_a_pod_that_is_much_worse_is_replaced_soon() -> None:
    numbers = equal.power(8, 1.0, Settings(30))
    assert numbers["replaced in its first comparable round"].high >= 0.84
    assert numbers["within four"].value >= 0.9


def test_promise_of_what_is_shown_its_interval_covers_the_truth() -> None:
    for shown in first_row.runs(8, 20, Settings(30)):
        assert first_row.above(shown)["its interval covers the truth"].high >= 0.95


def test_promise_of_what_is_shown_also_where_one_episode_in_a_hundred_fails() -> None:
    rare = [row for row in first_row.rows(Settings(10)) if row.scenario == "rare failures"]
    assert len(rare) == 3
    for row in rare:
        assert row.numbers["its interval covers the truth"].high >= 0.95, row


def test_promise_of_mixed_speeds_everybody_is_compared_to_the_end() -> None:
    cases = by_case(MIXED)
    for algorithm in speeds.SPEEDS:
        last = cases[algorithm]["minute of the last comparison"]
        assert last.value >= 0.8 * MINUTES, algorithm


def test_promise_of_equal_pods_a_fast_algorithm_keeps_its_places() -> None:
    equals = Site("equal", {"ppo": 5000.0, "sac": 125.0}, "", (1.0,) * 8, pods=8, minutes=240.0)
    living = {name: cases["living at the end"].value for name, cases in by_case(equals).items()}
    assert min(living.values()) >= 2, living  # of four each, and one of them is a control


def test_promise_of_fewer_slots_than_pods_no_algorithm_starves() -> None:
    cases = by_case(replace(MIXED, slots=(1.0,) * 6))
    hours = {algorithm: cases[algorithm]["slot-hours"].value for algorithm in speeds.SPEEDS}
    assert min(hours.values()) >= 0.1 * sum(hours.values()), hours


def test_promise_of_unequal_nodes_the_slow_one_is_compared() -> None:
    assert by_case(SLOW_NODE)[SLOW]["comparisons"].value >= 2


@pytest.mark.parametrize("case", target.CASES[:5:2], ids=lambda case: case.name)
def test_promise_of_a_target_that_is_missed(case: target.Case) -> None:
    runs = [target.attempt(case, case.target, 10, Settings(), seed) for seed in range(25)]
    assert share(passed for passed, _, _ in runs).low <= ALPHA


def test_promise_of_power_a_target_that_is_passed_by_far() -> None:
    case = next(case for case in target.CASES if case.draw is target.normal)
    runs = [target.attempt(case, case.true / 1.1, 10, Settings(), seed) for seed in range(25)]
    assert target.power(runs)["passes"].value >= 0.9


@pytest.mark.parametrize("able", [1, 4])
def test_promise_of_sparse_rewards_who_succeeds_at_times_leads(able: int) -> None:
    numbers = sparse.outcome(able, True, Settings(10))
    assert numbers["first row succeeds at times"].value == 1
    assert numbers["winner"].value == 1


@pytest.mark.parametrize("cost", trap.COSTS.values(), ids=list(trap.COSTS))
def test_promise_of_power_copies_cost_nothing_even_in_the_trap(cost: float) -> None:
    none, copies = (
        trap.outcome(cost, 32, never, Settings(6))["true score delivered"]
        for never in (True, False)
    )
    assert copies.value > none.value - 2 * math.hypot(copies.error, none.error)


def test_an_updater_by_which_nobody_is_beaten_copies_nobody() -> None:
    assert trap.outcome(0.0, 8, True, Settings(2))["copies"].value == 0


def test_one_attempt_is_passed_no_more_often_than_without_a_fall() -> None:
    case = target.CASES[0]
    runs = [target.attempt(case, case.target, 1, Settings(), seed) for seed in range(50)]
    assert {made for _, made, _ in runs} <= {0, 1}
    chance = share(passed for passed, _, _ in runs)
    assert chance.low <= 0.99**64


def test_a_share_has_wilsons_interval_and_a_mean_its_standard_error() -> None:
    half = share([True, False] * 50)
    assert (half.value, round(half.low, 3), round(half.high, 3)) == (0.5, 0.404, 0.596)
    assert (share([False] * 100).low, round(share([False] * 100).high, 3)) == (0.0, 0.037)
    some = mean([1.0, 3.0, math.nan])
    assert (some.value, some.error, some.count) == (2.0, 1.0, 2)
    assert str(mean([])) == "-"


def test_a_table_has_a_line_for_each_case_and_rules() -> None:
    old, new = (Row("s", "c", {"m": mean([value, value])}) for value in (1.0, 2.0))
    assert render({"before": [old], "after": [new]}).splitlines() == [
        "| s | rules | m |",
        "| --- | --- | --- |",
        "| c | before | 1.00 ± 0.00 |",
        "| c | after | 2.00 ± 0.00 |",
    ]


def test_two_checkouts_are_played_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    arguments = ["--scenario", "sparse", "--replicates", "2", "--json", str(rows)]
    selection.main([*arguments, "--against", str(ROOT)])
    lines = capsys.readouterr().out.splitlines()
    before = [line.replace("| before |", "|") for line in lines if "| before |" in line]
    after = [line.replace("| after |", "|") for line in lines if "| after |" in line]
    assert before == after
    assert len(before) == len(json.loads(rows.read_text())) == 4
    selection.main([*arguments[:4], "--against", str(rows)])
    assert capsys.readouterr().out.splitlines() == lines


def test_a_component_is_played_once_and_marked_where_it_is_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "EVERY", {"few": budget.EVERY["few"]})
    monkeypatch.setattr(trap, "EPISODES", (8,))
    ask = ["--components", "default", "allocator=fair", "--replicates", "2", "--cells"]
    selection.main([*ask, str(tmp_path)])
    table = capsys.readouterr().out
    assert "| world | default | allocator=fair |" in table
    first = next(line for line in table.splitlines() if line.startswith("| few |"))
    default, fair = (float(cell.split(" ± ")[0]) for cell in first.split(" | ")[1:])
    assert default > fair + 10
    assert "greed, trap, 8 episodes" in table  # nothing there asks an allocator
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(written) == 2
    selection.main([*ask, str(tmp_path)])
    assert capsys.readouterr().out == table
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written


def test_a_number_is_marked_by_three_errors_of_its_difference_to_the_default() -> None:
    default = mean([0.0, 2.0])  # 1 ± 1
    assert components.marked(mean([4.1, 4.1]), default) == "**4.10 ± 0.00**"
    assert components.marked(mean([3.9, 3.9]), default) == "3.90 ± 0.00"
    assert components.marked(mean([5.0, 7.0]), default) == "**6.00 ± 1.00**"  # 3.5 errors
    assert components.marked(mean([4.0, 6.0]), default) == "5.00 ± 1.00"  # 2.8


@pytest.mark.parametrize(
    ("learn", "place", "before", "after"),
    [
        (unseen.power, 0.35, None, 17.0),  # 0.03 + 0.4 * 0.35 of a gap of 1
        (unseen.matters_late, 0.3, 60.0, 64.0),
        (unseen.needle, 0.725, 20.0, 32.0),
        (unseen.needle, 0.75, 20.0, 19.0),
        (unseen.ridge, 0.6, None, 11.0),
    ],
)
def test_a_world_that_was_not_seen_learns_as_its_formula_says(
    learn: Callable[[unseen.Pod, float | None], tuple[float, float]],
    place: float,
    before: float | None,
    after: float,
) -> None:
    pod = unseen.Pod(place, place, "toy", np.random.default_rng(0))
    assert learn(pod, before)[1] == pytest.approx(after)


@pytest.mark.parametrize("name", unseen.WORLDS)
def test_returns_of_a_world_that_was_not_seen_are_as_high_as_its_truth(name: str) -> None:
    world, rng = unseen.WORLDS[name], np.random.default_rng(0)
    pod = unseen.Pod(0.7, 0.7, "fast", rng)
    state = truth = None
    for _ in range(8):
        state, truth = world.learn(pod, state)
    returns = world.returns(truth, rng.standard_normal(400_000), rng)
    assert truth is not None
    error = returns.std() / math.sqrt(len(returns))
    assert returns.mean() == pytest.approx(truth, abs=4 * error)


def test_a_world_that_was_not_seen_has_a_row_for_each_allocator() -> None:
    rows = list(unseen.rows(Settings(2, worlds=("few", "four"))))
    assert {row.scenario for row in rows} == {"unseen"}
    assert [row.case for row in rows] == [
        f"four, {allocator}" for allocator in ("auto", "fair", "ocba", "thompson", "curves")
    ]


def test_worlds_of_two_scenarios_are_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    ask = ["--scenario", "budget", "unseen", "--allocator", "auto", "--replicates", "2"]
    selection.main([*ask, "--world", "few", "sparse", "--json", str(path)])
    rows = {row.case: row for row in Row.read(path)}
    assert list(rows) == ["few, no copies, auto", "few, copies, auto", "sparse, auto"]
    world = unseen.WORLDS["sparse"]
    scores = [unseen.score(world, "auto", Settings(), replicate) for replicate in (0, 1)]
    shown = rows["sparse, auto"].numbers["score delivered, % of the range"]
    assert shown.value == pytest.approx(100 * sum(scores) / 2 / 0.9)


def test_a_world_of_two_hyperparameters_is_not_played_with_one() -> None:
    ridge = unseen.WORLDS["ridge"]
    both, one = (
        unseen.score(world, "fair", Settings(), 0) for world in (ridge, replace(ridge, space=SPACE))
    )
    assert both != one


def test_components_are_played_in_worlds_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        selection.main(["--components", "default", "--world", "few"])
    assert "--world: not beside --components" in capsys.readouterr().err


def test_one_replicate_has_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        selection.main(["--replicates", "1"])
    assert "an error needs at least 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["--against /nonexistent", "--against /", "--generator nope", "--updater nope",
     "--allocator nope", "--second-looks 7"],
)  # fmt: skip
def test_what_is_not_there_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        selection.main(["--scenario", "equal", "--replicates", "2", *words.split()])
    assert ended.value.code == 2 and words.split()[0] in capsys.readouterr().err


@pytest.mark.long
def test_a_barrier_costs_slots_what_the_page_says_and_a_tournament_none() -> None:
    none = schemes.outcome("open", 8, 0.3, "tournament", Settings(2))["slots at work"]
    barrier = schemes.outcome("open", 8, 0.3, "generational", Settings(2))["slots at work"]
    assert none.value > 0.99
    assert 0.7 <= barrier.value <= 0.86  # 0.78 in 10 replicates: docs/schemes.md

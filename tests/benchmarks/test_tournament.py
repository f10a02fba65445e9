"""The benchmark of optimisers: budgets, ranges, cells and tables, by hand."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import cells, hpcpod_run
from arms.cells import Cell
from arms.loop import flat, of, play
from arms.order import Order, best_played
from arms.random_search import RandomSearch
from arms.scoring import returns_of
from arms.table import chance, interquartile, mean_of, optimism, render
from arms.tasks import PPO, TASKS, TRAININGS
from arms.trainer import clipped
from asked import ended
from tournament import is_asked, main, parse, wanted

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import Choice, Int, Uniform


def order(task: str = "cartpole-ppo", arm: str = "tournament", **changes: object) -> Order:
    given = {"seed": 1, "axis": "env_steps", "slots": 1, "folder": "/nowhere", **changes}
    return Order(task, arm, **given)  # type: ignore[arg-type]


def cell(arm: str, seed: int, mean: float, task: str = "cartpole-ppo", claimed: float = 0) -> Cell:
    return Cell(task, arm, seed, "env_steps", "1", 1, mean, 1.0, claimed, 1000, 60.0)


@pytest.mark.parametrize("task", TASKS)
def test_a_budget_is_32_trainings_of_whole_rounds(task: str) -> None:
    whole, sixteenth = order(task), order(task, share=1 / 16)
    assert whole.env_steps == TRAININGS * TASKS[task].training
    assert sixteenth.env_steps == 2 * TASKS[task].training
    assert whole.env_steps % TASKS[task].round_steps == 0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("arm", [*hpcpod_run.POPULATIONS, "long_run", "long_run_searched"])
@pytest.mark.parametrize("axis", ["env_steps", "seconds"])
def test_each_run_of_ours_is_a_configuration_of_that_budget(task: str, arm: str, axis: str) -> None:
    asked = order(task, arm, axis=axis)
    config = from_mapping(hpcpod_run.config(asked))
    resolve_algorithms(config)
    if axis == "env_steps":
        assert (config.stop.env_steps, config.stop.minutes) == (asked.env_steps, None)
    else:
        assert config.stop.env_steps is None
        seconds = TASKS[task].seconds - hpcpod_run.RESERVE
        assert config.stop.minutes == pytest.approx(seconds / 60)
    assert config.population.controls == 0


def test_the_zoo_within_the_ranges_keeps_the_network_and_the_updates_of_the_other_arms() -> None:
    config = hpcpod_run.config(order("acrobot-dqn", "long_run_searched"))
    assert config["env"]["num_envs"] == 8
    assert config["agents"]["dqn"] == {
        "updates_per_step": 0.125,
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 128,
        "epsilon_end": 0.1,
        "target_interval": 250,
    }


def test_ranges_of_several_algorithms_are_told_apart() -> None:
    spaces = {"a": {"x": {"uniform": [0, 1]}}, "b": {"x": {"int": [1, 2]}, "y": {"choice": [3, 4]}}}
    ranges = list(flat(spaces))
    assert ranges == [("a.x", "uniform", [0, 1]), ("b.x", "int", [1, 2]), ("b.y", "choice", [3, 4])]
    assert of("b", {"a.x": 0.5, "b.x": 2, "b.y": 4}) == {"x": 2, "y": 4}


def test_a_perturbed_value_is_moved_into_its_range() -> None:
    assert clipped(1.2, Uniform(0.0, 1.0)) == 1.0
    assert clipped(0, Int(1, 9)) == 1
    assert clipped(4.6, Int(1, 9)) == 5
    assert clipped(64, Choice((64, 128))) == 64
    chosen = clipped(np.int64(64), Choice((64, 128)))  # SMAC's
    assert (type(chosen), chosen) == (int, 64)


def test_random_search_draws_every_range_of_algorithms_in_turn() -> None:
    search = RandomSearch(order("pendulum-mixed", "random_search"))
    draws = [search.ask(number) for number in range(4)]
    assert [algorithm for _, algorithm, _ in draws] == ["ppo", "sac", "ppo", "sac"]
    assert PPO.keys() <= draws[0][2].keys()
    rates = [drawn["learning_rate"] for _, _, drawn in draws]
    assert len(set(rates)) == 4
    assert all(1e-6 <= float(rate) <= 1e-1 for rate in rates)


def test_the_best_scored_checkpoint_in_time_is_delivered(tmp_path: Path) -> None:
    asked = order(axis="seconds", folder=str(tmp_path), began=1000.0)
    for name in ("one", "two", "late"):
        (tmp_path / name).write_text(name)
    lines = [
        {"key": "a", "score": 1.0, "file": str(tmp_path / "one"), "steps": 4, "at": 1010.0},
        {"key": "a", "score": 3.0, "file": str(tmp_path / "two"), "steps": 4, "at": 1020.0},
        {"key": "b", "score": 9.0, "file": str(tmp_path / "late"), "steps": 4, "at": 1091.0},
        {"key": "c", "score": 22.0, "file": "", "steps": 0, "at": 1030.0},
    ]
    asked.played.write_text("".join(json.dumps(line) + "\n" for line in lines))
    delivery = best_played(asked)
    assert (delivery.claimed, delivery.env_steps) == (3.0, 12)
    assert asked.policy.read_text() == "two"
    assert delivery.detail == {"trainings": 3, "rounds": 4}
    assert asked.is_over(0)
    assert not order(axis="seconds", began=time.time()).is_over(10**9)


def test_a_cell_that_failed_or_was_made_otherwise_is_played_again(tmp_path: Path) -> None:
    asked = [Cell("cartpole-ppo", "smac", seed, "env_steps", "new") for seed in (1, 2, 3)]
    cells.write(tmp_path, Cell("cartpole-ppo", "smac", 1, "env_steps", "new", mean=5.0))
    cells.write(tmp_path, Cell("cartpole-ppo", "smac", 2, "env_steps", "old", mean=5.0))
    cells.write(tmp_path, Cell("cartpole-ppo", "smac", 3, "env_steps", "new", failure="exit 1"))
    known = cells.read(tmp_path)
    assert len(known) == 3
    assert [c.seed for c in cells.missing(asked, known)] == [2, 3]
    assert cells.made("cartpole-ppo", 1.0) != cells.made("cartpole-ppo", 0.5)


def test_a_seed_of_all_arms_comes_before_the_next_seed() -> None:
    options = parse(["--tasks", "cartpole-ppo", "--arms", "smac,tournament", "--seeds", "2"])
    assert [(c.seed, c.arm) for c in wanted(options)] == [
        (1, "smac"), (1, "tournament"), (2, "smac"), (2, "tournament"),
    ]  # fmt: skip


def test_figures_by_hand() -> None:
    assert mean_of([100.0, 104.0]) == "102 ± 2 (2)"
    assert mean_of([-1234.0]) == "-1,234"  # of one seed its score alone
    assert (mean_of([-192.9]), mean_of([-0.04]), mean_of([-0.04] * 2)) == (
        "-192.9", "0.0", "0.0 ± 0.0 (2)"
    )  # fmt: skip
    # Of the four pairs of CartPole one arm wins three; on Acrobot each seed wins and loses.
    one = {"cartpole-ppo": [300.0, 400.0], "acrobot-dqn": [-90.0]}
    other = {"cartpole-ppo": [200.0, 350.0], "acrobot-dqn": [-90.0], "hopper-ppo": [1.0]}
    # Of the 6 ways to deal the labels of CartPole 4 are as far from the middle or farther.
    assert chance(one, other, list(TASKS)) == "0.62 (0.25 to 0.75), p 0.67"
    assert chance(one, {"hopper-ppo": [1.0]}, list(TASKS)) == ""
    # (261 - 22) / 478 is one half
    one_seed = {"cartpole-ppo": [261.0]}, ["cartpole-ppo"]
    assert interquartile(*one_seed) == "0.50"  # an interval of it would have no width
    assert (
        interquartile({"cartpole-ppo": [261.0, 261.0]}, ["cartpole-ppo"]) == "0.50 (0.50 to 0.50)"
    )
    assert chance(one_seed[0], {"cartpole-ppo": [22.0]}, one_seed[1]) == "1.00, p 1"
    assert optimism([cell("smac", 1, 261.0, claimed=308.8)]) == "+0.100"


def test_a_table_has_what_there_is_and_says_what_its_sum_is_over() -> None:
    table = render(
        [
            cell("tournament", 1, 400.0), cell("tournament", 2, 500.0), cell("smac", 1, 100.0),
            cell("tournament", 1, -80.0, "acrobot-dqn"),
            Cell("acrobot-dqn", "smac", 1, "env_steps", "1", failure="exit 1"),
        ]
    )  # fmt: skip
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[1][1:3] == ["450 ± 50 (2)", "-80.0"]
    assert rows[2][0].endswith("(1 failed)")
    assert rows[2][1:3] == ["100.0", ""]
    assert rows[2][4].startswith("1.00")
    assert table.endswith("every arm has played: cartpole-ppo.")


def test_a_table_shows_the_seeds_the_axis_and_the_arms_that_were_asked_for() -> None:
    played = [cell("smac", 1, 100.0), cell("tournament", 1, 400.0), cell("tournament", 2, 500.0)]
    timed = replace(cell("tournament", 1, 300.0), axis="seconds")

    def shown(*words: str) -> list[list[str]]:
        options = parse(["--table", "--arms", "smac,tournament", *words])
        table = render([c for c in [*played, timed] if is_asked(c, options)], options.arms)
        rows = [line.split(" | ")[1:3] for line in table.splitlines() if line.startswith("| ")]
        return [row for row in rows if row != ["cartpole-ppo", "each seed"]]

    steps = [["100.0", "100.0"], ["450 ± 50 (2)", "400.0, 500.0"]]
    assert shown() == [*steps, ["300.0", "300.0"]]
    assert shown("--axis", "env_steps") == shown("--axis", "env_steps", "--seeds", "2") == steps
    assert shown("--axis", "env_steps", "--seeds", "1") == [steps[0], ["400.0", "400.0"]]
    assert shown("--axis", "seconds") == [["300.0", "300.0"]]


@pytest.mark.parametrize("words", ["--seeds 0", "--table --json /nonexistent", "--arms nope"])
def test_what_can_not_be_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(words.split())
    assert exit_.value.code == 2 and words.split()[-2] in capsys.readouterr().err


def test_a_file_of_something_else_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cells.jsonl"
    for text in ("no JSON", "[1]", '{"task": 1}'):
        path.write_text(text)
        monkeypatch.setattr("sys.argv", ["tournament.py", "--table", "--json", str(path)])
        assert ended(main) == 2
        assert f"{path} does not hold lines of JSON" in capsys.readouterr().err


def test_a_policy_is_scored_on_the_same_episodes_whoever_plays_them() -> None:
    # Whoever pushes to the left falls within 8 to 11 steps; 250 side by side are one batch.
    def left(obs: object) -> object:
        return [0] * len(obs)  # type: ignore[arg-type]

    first, again = returns_of(left, "CartPole-v1", 260), returns_of(left, "CartPole-v1", 4)
    assert len(first) == 260
    assert first[:4] == again
    assert 8 <= min(first) <= max(first) <= 11


@pytest.mark.long
def test_random_search_trains_and_delivers_a_policy(tmp_path: Path) -> None:
    asked = order(arm="random_search", folder=str(tmp_path), share=1 / 32)
    delivery = play(asked, RandomSearch(asked))
    assert delivery.env_steps == TASKS["cartpole-ppo"].training
    assert delivery.detail == {"trainings": 1, "rounds": 4}
    assert asked.policy.stat().st_size > 0

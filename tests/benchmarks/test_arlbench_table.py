"""The replay of tables, on tables that are made up; on the real ones where HPCPOD_ARLBENCH is."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import arlbench_table
import numpy as np
import pytest
from arlbench_replay.replay import TRAININGS, Draw, Outcome, everything, random_search, replayed
from arlbench_replay.tables import Array, Table, left_one_out, read

from hpcpod.tournament.allocators.replicates import MOST

REAL = os.environ.get("HPCPOD_ARLBENCH")


def made_up(configurations: int = 120) -> Table:
    """Configurations that reach 0 to 100; one training of four fails, and stays at 10."""
    rng = np.random.default_rng(1)
    ceilings = rng.uniform(0, 100, configurations)
    fails = rng.random((configurations, 10)) < 0.25
    ends = np.where(fails, 10.0, ceilings[:, None])
    growth = 1 - np.exp(-np.arange(1, 11) / 4)
    noise = rng.normal(0, 3, (configurations, 10, 10))
    return Table("made_up", ends[:, :, None] * growth + noise, {})


def written(path: Path, rows: list[dict[str, object]]) -> None:
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def tables(folder: Path, returns: Array) -> None:
    """Write a task as ARLBench does, and what random search tried."""
    written(
        folder / "sobol_toy.csv.gz",
        [
            {"run_id": c, "budget": 100 * (b + 1), "performance": returns[c, s, b], "seed": s}
            for c, s, b in np.ndindex(*returns.shape)
        ],
    )
    written(
        folder / "rs.toy.csv.gz",
        [
            {
                "config_id": c, "budget": 100.0 * budget, "optimisation_seed": run, "seed": s,
                "performance": returns[c, s, -1] + run,
            }
            for c in range(4) for run in range(2) for s in range(3) for budget in (1, 10)
        ],
    )  # fmt: skip


def test_tables_are_read_and_incomplete_configurations_left_out(tmp_path: Path) -> None:
    returns = made_up(6).returns
    tables(tmp_path, returns)
    found = read(tmp_path, "toy")
    assert found.returns == pytest.approx(returns)
    assert found.published["rs"][1] == pytest.approx(returns[:4, :3, -1] + 1)
    returns[2, 5, 3] = np.nan
    tables(tmp_path, returns)
    with gzip.open(tmp_path / "sobol_toy.csv.gz", "rt") as file:
        text = file.read().replace("nan", "")
    with gzip.open(tmp_path / "sobol_toy.csv.gz", "wt") as file:
        file.write(text)
    assert len(read(tmp_path, "toy").returns) == 5


def test_a_choice_without_its_luck_by_hand() -> None:
    # by seeds 1 and 2 the second is chosen and has 1 by seed 0; by 0 and 2 the second, which has
    # 5 by seed 1; by 0 and 1 the first, which has 0 by seed 2
    assert left_one_out(np.array([[9.0, 0.0, 0.0], [1.0, 5.0, 9.0]])) == pytest.approx(
        (1 + 5 + 0) / 3
    )


def test_the_budget_is_spent_and_no_seed_that_scores_is_trained() -> None:
    draw = Draw(made_up(), 0)
    whole = Draw(made_up(), 0)
    whole.curves[:, MOST:] = np.nan  # unseen: the replay has no use for them
    found = replayed(whole, "replicates", 48, 0)
    assert 0.85 * TRAININGS < found.cost <= TRAININGS + 1
    assert 1 < found.seeds <= MOST
    assert found == replayed(draw, "replicates", 48, 0)


def test_where_the_best_stand_still_fresh_draws_are_configurations_of_the_table() -> None:
    table = made_up()
    table.returns[:] = table.returns[:, :, -1:]  # no training gains anything
    draw = Draw(table, 0)
    draw.curves[:48] = 0.0  # the founders are 24 of these
    assert replayed(draw, "halving", 24, 0).shown > 10  # a place out of the table was an error


def test_six_seeds_of_each_choose_by_the_last_scores() -> None:
    draw = Draw(made_up(), 0)
    draw.curves[:] = 0.0
    draw.curves[7, :MOST, -5:] = 60.0  # in the last round the next one is ahead
    draw.curves[8, :MOST, -1] = 100.0
    draw.curves[100, :] = 500.0  # none of the first 96
    draw.truth = draw.curves[:, MOST:, -1].mean(axis=1)
    assert everything(draw) == Outcome(true=0.0, shown=60.0, cost=6 * TRAININGS, seeds=MOST)


@pytest.mark.long
def test_promise_of_replicates_they_deliver_more_than_random_search_and_claim_less() -> None:
    draws = [Draw(made_up(), replicate) for replicate in range(6)]
    best = [replayed(draw, "replicates", 96, i) for i, draw in enumerate(draws)]
    plain = [random_search(draw) for draw in draws]

    def over(found: list[Outcome]) -> float:
        return float(np.mean([each.shown - each.true for each in found]))

    assert np.mean([each.true for each in best]) > np.mean([each.true for each in plain])
    assert over(best) < over(plain)


def test_the_command_prints_a_table_and_goes_on_where_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables(tmp_path, made_up(36).returns)
    words = ["--data", str(tmp_path), "--cells", str(tmp_path / "cells"), "--pods", "24"]
    words += ["--arms", "halving", "--replicates"]
    arlbench_table.main([*words, "2"])
    first = capsys.readouterr().out
    assert first.count("\n| toy |") == 3
    assert "halving: above random search on" in first
    kept = {each: each.read_text() for each in (tmp_path / "cells").iterdir()}
    arlbench_table.main([*words, "2"])
    assert capsys.readouterr().out == first
    assert kept == {each: each.read_text() for each in (tmp_path / "cells").iterdir()}


@pytest.mark.parametrize("words", ["--arms nope", "--tasks nope", "--pods -1", "--data tests"])
def test_what_is_not_there_is_refused(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables(tmp_path, made_up(6).returns)
    with pytest.raises(SystemExit) as ended:
        arlbench_table.parse(["--data", str(tmp_path), *words.split()])
    assert ended.value.code == 2 and words.split()[0] in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(REAL is None, reason="HPCPOD_ARLBENCH names no folder with the tables")
def test_on_the_real_tables_replicates_deliver_more_than_random_search(tmp_path: Path) -> None:
    table = read(Path(str(REAL)), "cc_pendulum_sac")
    draws = [Draw(table, replicate) for replicate in range(20)]
    best = [replayed(draw, "replicates", arlbench_table.PODS, i) for i, draw in enumerate(draws)]
    assert np.mean([a.true - random_search(d).true for a, d in zip(best, draws, strict=True)]) > 0

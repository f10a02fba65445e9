"""The rows of a run's reports, by numbers worked by hand."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from hpcpod.records.records import Birth, Board
from hpcpod.run.history import Result, results
from hpcpod.run.leaderboard import rows as ranked_rows
from hpcpod.run.tables import leaderboard_table
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.hand_played import START, answer, birth_of, end, fail, merged
from tests.support.small_runs import create


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, "ppo", "dqn", stop={"rounds": 9})


def rows(folder: RunFolder, board: Board | None = None) -> dict[str, Result]:
    return {row.order: row for row in results(folder, board or read_board(folder))}


def test_a_round_has_its_numbers(folder: RunFolder) -> None:
    order = birth_of(folder, "p0001")
    answer(
        folder, order, (1.0, 2.0, 3.0, 6.0), 10.0,
        wall_seconds=8.0, train_seconds=5.0, evaluate_seconds=2.0, metrics={"loss": 0.5},
    )  # fmt: skip
    board = replace(merged(folder), began=START)
    row = rows(folder, board)["p0001-00001-1"]
    assert (row.pod, row.algorithm, row.round, row.attempt) == ("p0001", "ppo", 1, 1)
    assert (row.purpose, row.slot, row.counted, row.failure) == ("round", "s", True, "")
    assert (row.ended, row.seconds) == (START + 10, 10.0)
    assert (row.env_steps, row.trained_steps, row.total_steps) == (512, 512, 512)
    assert (row.wall_seconds, row.train_seconds, row.evaluate_seconds, row.cost) == (8, 5, 2, 8)
    # Deviations -2, -1, 0, 3: 14 / 3 squared; Student's t of 3 degrees is 3.18245.
    assert row.mean == 3.0 and row.sd == pytest.approx(math.sqrt(14 / 3))
    half = 3.182446 * math.sqrt(14 / 3) / 2
    assert row.low == pytest.approx(3 - half) and row.high == pytest.approx(3 + half)
    assert row.metrics == {"loss": 0.5}


def test_rows_are_in_order_of_time_and_steps_are_those_of_all_pods(folder: RunFolder) -> None:
    answer(folder, birth_of(folder, "p0002"), (1.0, 2.0), 30.0)
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 20.0)
    merged(folder)
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 40.0)
    board = merged(folder)
    found = results(folder, board)
    assert [(row.pod, row.round, row.total_steps) for row in found] == [
        ("p0001", 1, 512), ("p0002", 1, 1024), ("p0001", 2, 1536),
    ]  # fmt: skip
    assert board.env_steps == 1536
    assert found[-1].seconds == pytest.approx(START + 40 - (board.began or math.nan))


def test_a_round_that_is_not_merged_does_not_count_yet(folder: RunFolder) -> None:
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 20.0)
    [row] = rows(folder).values()
    assert (row.counted, row.total_steps, row.seconds) == (False, 0, None)
    merged(folder)
    assert rows(folder)["p0001-00001-1"].counted


def test_an_attempt_that_failed_counts_and_its_reason_is_there(folder: RunFolder) -> None:
    fail(folder, birth_of(folder, "p0001"), "out of memory", 5.0, wall_seconds=3.0)
    [row] = rows(folder, merged(folder)).values()
    assert (row.failure, row.failure_kind, row.counted) == ("out of memory", "crash", True)
    assert (row.mean, row.sd, row.low, row.cost, row.env_steps) == (None, None, None, 3.0, 0)


def test_a_score_without_an_error_has_a_mean_and_no_interval(folder: RunFolder) -> None:
    # Of a program's: its panel is the score as often as the panel has episodes.
    one = {"score_error": 0.0, "score_episodes": 1.0}
    answer(folder, birth_of(folder, "p0001"), (3.0, 3.0), metrics=one)
    board = merged(folder)
    [row] = rows(folder, board).values()
    assert (row.mean, row.sd, row.low, row.high) == (3.0, None, None, None)
    [ranked] = ranked_rows(board)
    assert (ranked.mean, ranked.episodes) == (3.0, 1)
    console = Console(width=80, highlight=False)
    with console.capture() as shown:
        console.print(leaderboard_table(board))
    [line] = [each for each in shown.get().splitlines() if "p0001" in each]
    assert "3.0" in line and "[" not in line


def test_returns_that_are_not_finite_are_a_failure_without_a_mean(folder: RunFolder) -> None:
    answer(folder, birth_of(folder, "p0001"), (1.0, math.nan), metrics={"loss": math.inf})
    [row] = rows(folder, merged(folder)).values()
    assert (row.failure_kind, row.mean, row.counted) == ("diverged", None, True)
    assert row.metrics == {"loss": math.inf}


def test_a_report_of_an_order_that_was_given_out_again_counts_for_nothing(
    folder: RunFolder,
) -> None:
    lost = birth_of(folder, "p0001")
    board = merge(folder, Rules.of_run(folder), lost=[lost.id])
    answer(folder, lost, (9.0, 9.0), 50.0)
    assert [row.counted for row in results(folder, board)] == [False]
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 40.0)
    found = rows(folder, merged(folder))
    assert {name: row.counted for name, row in found.items()} == {
        "p0001-00001-1": False, "p0001-00001-2": True,
    }  # fmt: skip
    assert found["p0001-00001-1"].total_steps == 512, "only what has counted is added up"


def test_the_last_round_of_a_dead_pod_counts_if_it_is_in_its_books(folder: RunFolder) -> None:
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 10.0)
    late = birth_of(folder, "p0001")
    board = merged(folder)
    late = replace(late, round=2)
    answer(folder, late, (1.0, 2.0), 20.0)
    dead = replace(board.pods["p0001"], fate="replaced", birth=None, history=())
    board = replace(board, pods={**board.pods, "p0001": dead})
    assert [row.counted for row in results(folder, board)] == [True, False]


def test_scores_on_fresh_seeds_have_the_steps_of_the_checkpoint(folder: RunFolder) -> None:
    for pod in ("p0001", "p0002"):
        answer(folder, birth_of(folder, pod), (1.0, 2.0), 20.0)
    merged(folder)
    board = end(folder)
    final = results(folder, board)[-1]
    assert (final.purpose, final.counted, final.mean) == ("report", True, 101)
    assert final.env_steps == 512
    assert (final.trained_steps, final.total_steps) == (0, board.env_steps)


def test_what_counted_adds_up_to_the_board(folder: RunFolder) -> None:
    for number in range(4):
        for pod in ("p0001", "p0002"):
            order = birth_of(folder, pod)
            if number == 1 and pod == "p0002":
                fail(folder, order, "it broke", trained_steps=7)
            else:
                answer(folder, order, (number, number + 1.0), 10.0 * number)
        merged(folder)
    board = end(folder)
    found = results(folder, board)
    assert sum(row.counted for row in found) == board.reports == 9
    assert sum(row.trained_steps for row in found if row.counted) == board.env_steps == 7 * 513
    assert found[-1].total_steps == board.env_steps


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_what_has_counted_is_told_from_the_files_whatever_happened(
    seed: int, tmp_path: Path
) -> None:
    places = {"pods": {"min": 4, "max": 4}, "warmup_rounds": 1}
    folder = create(tmp_path, population=places, stop={"rounds": 30}, cluster={"max_restarts": 2})
    rng, late, counted = Random(seed), list[Birth](), set[str]()
    for step in range(20):
        lost = []
        for pod in read_board(folder).living:
            assert pod.birth is not None
            chance = rng.random()
            if chance < 0.1:
                lost.append(pod.birth)
            elif chance < 0.25:
                kind = rng.choice(["crash", "corrupt"])
                fail(folder, pod.birth, "it broke", 10.0 * step, failure_kind=kind)
            elif chance < 0.9:
                level = rng.gauss(50.0 * (pod.id == "p0002"), 5.0)
                answer(folder, pod.birth, [level + n for n in range(8)], 10.0 * step)
        for order in [order for order in late if rng.random() < 0.3]:
            answer(folder, order, (1.0, 2.0), 10.0 * step)
        waited = {order.id for order in orders(read_board(folder))}
        merge(folder, Rules.of_run(folder), lost=[order.id for order in lost])
        counted |= {order for order in waited if folder.reports.exists(order)}
        late += lost
    board = read_board(folder)
    found = results(folder, board)
    assert {row.order for row in found if row.counted} == counted
    assert found[-1].total_steps == board.env_steps and len(counted) == board.reports
    assert len(found) > len(counted), "some came too late"
    assert {"replaced", "alive"} <= {pod.fate for pod in board.pods.values()}


def test_the_time_of_a_report_is_that_of_its_file(folder: RunFolder) -> None:
    report = answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 3.0)
    assert rows(folder)[report.order].ended == START + 3
    path = sharded(folder.path / "reports", report.order, ".json")
    os.utime(path, (START + 7, START + 7))
    assert rows(folder)[report.order].ended == START + 7


def test_what_is_no_sound_report_of_this_run_is_passed_over_and_stays(folder: RunFolder) -> None:
    whole = answer(folder, birth_of(folder, "p0001"), (1.0, 2.0))
    good = sharded(folder.path / "reports", whole.order, ".json").read_bytes()
    strange = (
        replace(whole, order="p0002-00001-1", pod="p0009"),
        replace(whole, order="p0001-00001-7"),
        replace(whole, order="p0001-00003-1"),
        replace(whole, order="p0001"),
        replace(whole, order="p0001-<script>-1"),
    )
    for report in strange:
        folder.reports.publish(report)
    names = ("p0001-00002-1", "p0001-00004-1")
    for name, data in zip(names, (good[:-9], good), strict=True):
        path = sharded(folder.path / "reports", name, ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    before = sorted(folder.path.rglob("*"))
    assert list(rows(folder)) == [whole.order]
    assert sorted(folder.path.rglob("*")) == before, "nothing goes into quarantine"


def test_times_that_are_none_are_no_times(folder: RunFolder) -> None:
    answer(
        folder, birth_of(folder, "p0001"), (1.0, 2.0),
        wall_seconds=math.inf, train_seconds=math.nan, evaluate_seconds=-5.0,
    )  # fmt: skip
    [row] = rows(folder).values()
    assert (row.wall_seconds, row.train_seconds, row.evaluate_seconds, row.cost) == (0, 0, 0, 0)
    assert row.ended is not None and math.isfinite(row.ended)

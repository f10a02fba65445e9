"""Usage of slots by purpose, and their activities, by numbers worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.run.history import results
from hpcpod.run.usage import Activity, Usage, activities, slots, usage, used
from hpcpod.storage.restarts import RestartRecord, Span
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from tests.support.hand_played import START, answer, birth_of, fail, merged
from tests.support.small_runs import create

SPENT = {"training": 60.0, "scoring": 10.0, "starting": 5.0, "waiting": 25.0}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, stop={"rounds": 9})


def hours(folder: RunFolder) -> dict[str, Usage]:
    board = read_board(folder)
    found = usage(folder, board, results(folder, board))
    return {row.purpose: row for row in found}


def done(folder: RunFolder) -> list[tuple[str, float, float, str]]:
    """The activities of a run, with their times since ``START``."""
    board = read_board(folder)
    found: tuple[Activity, ...] = activities(folder, board, results(folder, board))
    return [(a.kind, a.began - START, a.ended - START, a.pod) for a in found]


def test_purposes_add_up_to_what_slots_recorded(folder: RunFolder) -> None:
    folder.restarts.save("s", RestartRecord(seconds=100.0, cpus=4, gpus=0.5, spent=SPENT))
    folder.restarts.save("t", RestartRecord(seconds=50.0, cpus=2, spent={"waiting": 50.0}))
    fail(folder, birth_of(folder, "p0001"), "it broke", 20.0, wall_seconds=18.0)
    merged(folder)
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 40.0, wall_seconds=40.0)
    merged(folder)
    found = hours(folder)
    assert {name: row.slot_seconds for name, row in found.items()} == {
        "training": 42.0, "scoring": 10.0, "starting": 5.0, "waiting": 75.0, "lost": 18.0,
    }  # fmt: skip
    assert found["waiting"].core_hours == pytest.approx((4 * 25 + 2 * 50) / 3600)
    assert found["lost"].gpu_hours == pytest.approx(9 / 3600)
    assert sum(row.slot_seconds for row in found.values()) == 150.0
    all_of_it = used(folder.restarts.all())
    assert sum(row.core_hours for row in found.values()) == pytest.approx(all_of_it.core_hours)
    assert sum(row.gpu_hours for row in found.values()) == pytest.approx(all_of_it.gpu_hours)


def test_a_report_that_waits_for_its_merge_is_not_lost(folder: RunFolder) -> None:
    folder.restarts.save("s", RestartRecord(seconds=100.0, spent=SPENT))
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 40.0, wall_seconds=40.0)
    assert hours(folder)["lost"].slot_seconds == 0


def test_a_slot_loses_no_more_than_it_did(folder: RunFolder) -> None:
    folder.restarts.save("s", RestartRecord(seconds=100.0, spent=SPENT))
    fail(folder, birth_of(folder, "p0001"), "it broke", 20.0, wall_seconds=1e9)
    merged(folder)
    found = hours(folder)
    assert (found["training"].slot_seconds, found["lost"].slot_seconds) == (0.0, 60.0)


def test_time_before_slots_accounted_for_it_is_unknown(folder: RunFolder) -> None:
    folder.restarts.save("old", RestartRecord(seconds=100.0))
    folder.restarts.save("s", RestartRecord(seconds=130.0, spent=SPENT))
    found = hours(folder)
    assert (found["unknown"].slot_seconds, found["waiting"].slot_seconds) == (130.0, 25.0)
    assert sum(row.slot_seconds for row in found.values()) == 230.0


def test_a_run_without_slots_has_used_nothing(folder: RunFolder) -> None:
    assert [row.slot_seconds for row in hours(folder).values()] == [0.0] * 5
    assert done(folder) == []


def test_a_slot_is_shown_with_what_it_has(folder: RunFolder) -> None:
    record = RestartRecord(2, seconds=100.0, cpus=4, gpus=0.5, began=START, spent=SPENT)
    folder.restarts.save("7_0+1", record)
    [slot] = slots(folder, read_board(folder), ())
    assert (slot.slot, slot.began, slot.restarts, slot.gpus, slot.cpus) == (
        "7_0+1", START, 2, 0.5, 4,
    )  # fmt: skip
    assert (slot.seconds, slot.training, slot.waiting, slot.lost) == (100.0, 60.0, 25.0, 0.0)


def test_activities_follow_one_another_and_a_slot_that_was_preempted_is_away(
    folder: RunFolder,
) -> None:
    spans = (
        Span(START, 31.0, 4.0, "p0001-00002-1", "training", START + 20, START + 30),
        Span(START + 90, 30.0),
    )
    folder.restarts.save("s", RestartRecord(1, spans=spans))
    order = birth_of(folder, "p0001")
    answer(folder, order, (1.0, 2.0), 19.0, wall_seconds=14.0, evaluate_seconds=5.0)
    merged(folder)
    assert done(folder) == [
        ("waiting", 0, 1, ""), ("starting", 1, 5, ""), ("training", 5, 14, "p0001"),
        ("scoring", 14, 19, "p0001"), ("waiting", 19, 20, ""), ("training", 20, 30, "p0001"),
        ("waiting", 30, 31, ""), ("away", 31, 90, ""), ("waiting", 90, 120, ""),
    ]  # fmt: skip
    # The round goes on after the restart, and its wall time counts from there.
    answer(
        folder, birth_of(folder, "p0001"), (1.0, 2.0), 110.0,
        wall_seconds=18.0, train_seconds=25.0, evaluate_seconds=3.0,
    )  # fmt: skip
    merged(folder)
    assert done(folder)[5:] == [
        ("training", 20, 30, "p0001"), ("waiting", 30, 31, ""), ("away", 31, 90, ""),
        ("waiting", 90, 92, ""),
        ("training", 92, 107, "p0001"), ("scoring", 107, 110, "p0001"), ("waiting", 110, 120, ""),
    ]  # fmt: skip


def test_rounds_scored_beside_training_overlap_and_nothing_waits_then(folder: RunFolder) -> None:
    folder.restarts.save("s", RestartRecord(spans=(Span(START, 30.0),)))
    for number in (1, 2):
        order = birth_of(folder, "p0001")
        fields = {"wall_seconds": 20.0, "evaluate_seconds": 10.0}
        answer(folder, order, (1.0, 2.0), 10.0 + 10 * number, **fields)
        merged(folder)
    assert done(folder) == [
        ("training", 0, 10, "p0001"), ("scoring", 10, 20, "p0001"),
        ("training", 10, 20, "p0001"), ("scoring", 20, 30, "p0001"),
    ]  # fmt: skip


def test_an_order_that_failed_is_shown_as_such_and_in_no_start_but_its_own(
    folder: RunFolder,
) -> None:
    folder.restarts.save("s", RestartRecord(spans=(Span(START, 30.0),)))
    fail(folder, birth_of(folder, "p0001"), "it broke", 10.0, wall_seconds=1e6)
    assert done(folder) == [("failed", 0, 10, "p0001"), ("waiting", 10, 30, "")]


def test_a_slot_whose_record_is_torn_still_has_its_orders(folder: RunFolder) -> None:
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), 20.0, wall_seconds=20.0)
    assert done(folder) == [("training", 0, 20, "p0001")]


def test_what_slots_had_adds_up_and_those_of_one_job_were_requeued_once() -> None:
    records = {
        "7_0+0": RestartRecord(restarts=2, seconds=3600, gpus=0.5, cpus=2),
        "7_0+1": RestartRecord(restarts=1, seconds=3600, gpus=0.5, cpus=2),
        "7_1": RestartRecord(restarts=1, seconds=1800, gpus=1, cpus=4),
    }
    all_of_it = used(records)
    assert all_of_it.requeues == 3
    assert all_of_it.slot_seconds == 9000
    assert all_of_it.gpu_hours == pytest.approx(1.5)
    assert all_of_it.core_hours == pytest.approx(6.0)

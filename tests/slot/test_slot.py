"""A slot loses nothing: not to signals, not to a dying trainer, not to damaged files."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hpcpod._process import StopFlag
from hpcpod.errors import Corrupt
from hpcpod.records.records import Intent, Order, Owner, Report
from hpcpod.run.history import results
from hpcpod.run.usage import activities, usage
from hpcpod.slot.slot import Slot
from hpcpod.storage.requests import Drain, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import first_birth, train
from tests.support.slots import SlotProcess, gone
from tests.support.small_disks import filled, small_disk
from tests.support.small_runs import FAULTS, SLOW, create, wait_for

LONG: dict[str, Any] = {**SLOW, "stop": {"rounds": 1}}
"""One round of some seconds."""

HANG = 60.0
"""Seconds of silence. A trainer that imports torch on busy cores says nothing for up to 30."""

ORDER = "p0001-00001-1"


def report_of(folder: RunFolder, order: str = ORDER) -> Report:
    report = folder.reports.read(order)
    assert report is not None
    return report


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a long round that nothing happened to."""
    folder = create(tmp_path_factory.mktemp("undisturbed"), **LONG)
    return train(folder, first_birth(folder))


def assert_finished(folder: RunFolder, slot: SlotProcess, reason: str = "rounds") -> None:
    assert slot.end() == 0, slot.log
    board = read_board(folder)
    assert (board.phase, board.stop_reason) == ("finished", reason), slot.log
    assert (folder.path / "best.h5").exists() == (reason != "failed")


def test_a_slot_told_to_go_asks_to_be_requeued_and_its_last_life_ends_the_round_the_same(
    undisturbed: Report, tmp_path: Path
) -> None:
    folder = create(tmp_path, **LONG)
    for number in (signal.SIGTERM, signal.SIGUSR2):
        slot = SlotProcess(folder)
        slot.until_in_mid_round()
        child = slot.child().pid
        slot.process.send_signal(number)
        assert slot.end() == 75, slot.log
        assert gone(child)
        assert folder.checkpoints.latest("p0001", 1) is not None
        assert folder.reports.read(ORDER) is None and slot.status() == {}
    last = SlotProcess(folder)
    assert_finished(folder, last)
    assert last.log.count("goes on at") == 2
    report = report_of(folder)
    assert report.checkpoint == undisturbed.checkpoint
    assert report.returns == undisturbed.returns
    assert_accounted_for(folder)


def assert_accounted_for(folder: RunFolder) -> None:
    """All that a slot did in its three starts is in its record, and in the run's usage."""
    record = folder.restarts.read("s")
    assert record is not None
    assert sum(record.spent.values()) == pytest.approx(record.seconds)
    assert all(record.spent[doing] > 0 for doing in ("starting", "training", "scoring"))
    first, second, third = record.spans
    for span in (first, second):
        assert (span.order, span.doing) == (ORDER, "training")
        assert span.began < span.since < span.until <= span.began + span.seconds + 1
    assert third.order == ""
    board = read_board(folder)
    rows = results(folder, board)
    shown = [(each.kind, each.order) for each in activities(folder, board, rows)]
    assert shown.count(("training", ORDER)) == 3 and shown.count(("away", "")) == 2
    assert sum(row.slot_seconds for row in usage(folder, board, rows)) == pytest.approx(
        record.seconds
    )
    assert rows[0].ended is not None and third.began < rows[0].ended < time.time()


def test_a_killed_slot_takes_its_trainer_along_and_its_next_life_goes_on_from_the_checkpoint(
    undisturbed: Report, tmp_path: Path
) -> None:
    folder = create(tmp_path, **LONG)
    first = SlotProcess(folder)
    first.until_checkpointed()
    child = first.child().pid
    first.process.kill()
    assert first.end() == -signal.SIGKILL
    wait_for("the end of the trainer", lambda: gone(child))
    assert folder.reports.read(ORDER) is None
    second = SlotProcess(folder)
    assert_finished(folder, second)
    assert "goes on at" in second.log
    assert report_of(folder).checkpoint == undisturbed.checkpoint


def test_a_killed_trainer_is_a_failure_of_memory_and_the_slot_goes_on(tmp_path: Path) -> None:
    folder = create(tmp_path, **LONG)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    slot.child().kill()
    assert_finished(folder, slot)
    report = report_of(folder)
    assert report.failure_kind == "memory" and "SIGKILL" in report.failure
    assert report.cost > 0
    assert report_of(folder, "p0001-00001-2").failure == ""


def test_a_trainer_that_is_asked_to_stop_by_a_stranger_does_not_end_the_slot(
    undisturbed: Report, tmp_path: Path
) -> None:
    folder = create(tmp_path, **LONG)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    slot.child().terminate()
    assert_finished(folder, slot)
    assert report_of(folder).checkpoint == undisturbed.checkpoint


def faulty(tmp_path: Path, fault: str, times: int = 1, **more: Any) -> list[Any]:
    tally = str(tmp_path / "tally")
    return [{FAULTS: {"fault": fault, "tally": tally, "times": times, **more}}]


@pytest.mark.parametrize("fault", ["segfault", "raise", "orphan"])
def test_a_crash_costs_one_attempt_at_a_round(fault: str, tmp_path: Path) -> None:
    folder = create(tmp_path, wrappers=faulty(tmp_path, fault))
    slot = SlotProcess(folder)
    assert_finished(folder, slot)
    report = report_of(folder)
    kinds = {"segfault": "crash", "raise": "raised", "orphan": "memory"}
    assert report.failure_kind == kinds[fault]
    assert report_of(folder, "p0001-00001-2").failure == ""
    if fault == "raise":
        assert "Traceback (most recent call last)" in slot.log
        assert report.failure.startswith("RuntimeError: the simulator lost its mind (line ")
    if fault == "orphan":
        worker = int((tmp_path / "tally.pid").read_text())
        wait_for("the end of the simulator's worker", lambda: gone(worker))


def test_a_killed_slot_leaves_no_process_of_a_simulator_that_hangs(tmp_path: Path) -> None:
    folder = create(tmp_path, wrappers=faulty(tmp_path, "hang"))
    slot = SlotProcess(folder)
    note = tmp_path / "tally.pid"
    wait_for("the simulator's worker", lambda: note.exists() and note.read_text() != "")
    left = [slot.child(), *slot.child().children(recursive=True)]
    assert int(note.read_text()) in [process.pid for process in left]
    slot.process.kill()
    assert slot.end() == -signal.SIGKILL
    for process in left:
        wait_for(f"the end of {process}", partial(gone, process.pid))


def test_a_trainer_that_hangs_is_killed_and_its_round_is_done_again(
    undisturbed: Report, tmp_path: Path
) -> None:
    folder = create(tmp_path, **{**LONG, "pod": {"hang_seconds": HANG}})
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    slot.child().suspend()
    assert_finished(folder, slot)
    report = report_of(folder)
    assert report.failure_kind == "crash" and f"no sign of life for {HANG:g} s" in report.failure
    again = report_of(folder, "p0001-00001-2")
    assert (again.returns, again.checkpoint) == (undisturbed.returns, undisturbed.checkpoint)


@pytest.mark.parametrize("beside", [False, True])
def test_a_full_disk_is_waited_for_and_charged_to_nobody(
    beside: bool, undisturbed: Report, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small", 4096) as home:
        folder = create(home, **{**LONG, "pod": {**LONG["pod"], "score_beside": beside}})
        slot = SlotProcess(folder, logs=tmp_path)
        slot.until_checkpointed()
        with filled(home):
            wait_for("a wait", lambda: slot.log.count("free some space and try again; trying") > 1)
            assert "has no new checkpoint to resume from" in slot.log
        assert_finished(folder, slot)
        report = report_of(folder)
        assert (report.returns, report.checkpoint) == (undisturbed.returns, undisturbed.checkpoint)
        assert "goes on at" not in slot.log


def test_a_filesystem_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """Nothing can be read either, what is asked of the run included."""
    folder = create(tmp_path, **LONG)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    away = [folder.path / name for name in ("control", "board", "reports", "claims", "lives")]
    for path in away:
        path.rename(path.with_suffix(".away"))
        path.touch()
    wait_for("a wait", lambda: "trying again in" in slot.log or slot.process.poll() is not None)
    for path in away:
        path.unlink()
        path.with_suffix(".away").rename(path)
    assert slot.end() == 0, slot.log
    assert_finished(folder, slot)


def test_a_report_whose_checkpoint_was_swept_meanwhile_is_not_published(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"rounds": 1})
    report = train(folder, first_birth(folder))
    assert report.checkpoint is not None
    folder.blobs.path(report.checkpoint.core).unlink()
    slot = Slot(folder, Owner("s", "j", "here", 1), StopFlag())
    with pytest.raises(Corrupt, match="the blobs of its checkpoint are gone"):
        slot._publish(report)
    assert not folder.reports.exists(report.order)


def test_a_pod_that_keeps_crashing_dies_with_its_cause_and_the_slot_gives_up(
    tmp_path: Path,
) -> None:
    wrappers = faulty(tmp_path, "segfault", times=3)
    folder = create(tmp_path, "ppo", "dqn", wrappers=wrappers, cluster={"max_restarts": 1})
    first = SlotProcess(folder)
    assert first.end() == 1, first.log
    assert "this slot gives up" in first.log
    assert [pod.failures for pod in read_board(folder).living] == [1, 1]
    assert_finished(folder, SlotProcess(folder, job="another"))
    dead = read_board(folder).pods["p0001"]
    assert dead.fate == "failed" and "SIGSEGV" in dead.fate_reason
    assert {pod.fate for pod in read_board(folder).living} == {"alive"}


def test_a_diverged_pod_is_dead_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = create(tmp_path, "ppo", "dqn", wrappers=faulty(tmp_path, "nan"))
    slot = SlotProcess(folder)
    assert_finished(folder, slot)
    dead = [pod for pod in read_board(folder).pods.values() if pod.fate == "failed"]
    assert len(dead) == 1
    assert dead[0].fate_reason.startswith("diverged: CartPole-v1: the reward of environment 0")


def test_a_run_in_which_every_pod_diverges_fails(tmp_path: Path) -> None:
    folder = create(tmp_path, wrappers=[{FAULTS: {"fault": "nan"}}])
    assert_finished(folder, SlotProcess(folder), "failed")


def test_a_run_begins_when_its_first_slot_goes_to_work(tmp_path: Path) -> None:
    folder = create(tmp_path)
    seen: list[float | None] = [read_board(folder).began]

    class Looking(Slot):
        def execute(self, order: Order) -> None:
            seen.append(read_board(folder).began)
            folder.requests.publish(Drain())

    assert Looking(folder, Owner("s", "j"), StopFlag(())).run() == 0
    assert seen[0] is None and seen[1] is not None


def test_the_slot_of_a_duplicate_submission_ends_at_once(tmp_path: Path) -> None:
    folder = create(tmp_path)
    folder.intents.publish(Intent(0, "t0k3n", "slots"))
    folder.intents.record(0, "the first")
    late = SlotProcess(folder, job="the second", token="t0k3n")
    assert late.end() == 0
    assert "submitted as job the first already" in late.log
    assert folder.claims.owner(ORDER) is None


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def settle(folder: RunFolder, *rounds: int) -> None:
    """Train rounds in this process and merge them."""
    resolved = folder.resolved
    for _ in rounds:
        folder.reports.publish(train(folder, first_birth(folder)))
        merge(folder, Rules.of(resolved.config, resolved.algorithms))


def test_a_damaged_checkpoint_is_named_and_the_pod_goes_back_to_the_one_before(
    tmp_path: Path,
) -> None:
    folder = create(tmp_path, stop={"rounds": 3})
    settle(folder, 1, 2)
    checkpoint = first_birth(folder).checkpoint
    assert checkpoint is not None
    flip(folder.blobs.path(checkpoint.core))
    slot = SlotProcess(folder)
    assert_finished(folder, slot)
    assert f"{checkpoint.core}.h5 does not match its checksum" in slot.log
    assert [checkpoint.core in damaged.name for damaged in folder.quarantine.list()] == [True]
    assert read_board(folder).pods["p0001"].history[-1].round == 3
    assert folder.blobs.has(checkpoint.core)  # the same round, trained again, is the same blob


def test_a_winner_whose_checkpoint_is_damaged_in_the_end_leaves_the_next_best(
    tmp_path: Path,
) -> None:
    folder = create(tmp_path, "ppo", "dqn", stop={"rounds": 1})
    settle(folder, 1)
    best = read_board(folder).entries[0]
    flip(folder.blobs.path(best.checkpoint.core))
    slot = SlotProcess(folder)
    assert_finished(folder, slot)
    assert best.checkpoint.core in folder.quarantine.list()[0].name


def test_a_damaged_report_is_set_aside_and_its_round_given_out_again(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"rounds": 1})
    folder.reports.publish(train(folder, first_birth(folder)))
    (report,) = (folder.path / "reports").glob("*/*.json")
    flip(report)
    slot = SlotProcess(folder)
    assert_finished(folder, slot)
    assert "its round is given out again" in slot.log
    assert "reports+" in folder.quarantine.list()[0].name
    assert report_of(folder, "p0001-00001-2").failure == ""


def test_a_report_that_was_not_merged_is_not_trained_again(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"rounds": 1})
    report = train(folder, first_birth(folder))
    folder.reports.publish(report)
    assert_finished(folder, SlotProcess(folder))
    assert report_of(folder).slot == report.slot
    assert read_board(folder).pods["p0001"].history[0].checkpoint == report.checkpoint


def test_a_stopped_run_ends_a_slot_in_mid_round(tmp_path: Path) -> None:
    folder = create(tmp_path, **LONG)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    folder.requests.publish(Stop())
    assert slot.end() == 0
    assert folder.reports.read(ORDER) is None


def test_a_draining_slot_finishes_its_round_and_begins_no_other(tmp_path: Path) -> None:
    folder = create(tmp_path, **SLOW)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    folder.requests.publish(Drain())
    assert slot.end() == 0, slot.log
    assert report_of(folder).failure == ""
    board = read_board(folder)
    assert (board.phase, board.reports) == ("running", 1)
    assert folder.claims.owner("p0001-00002-1") is None

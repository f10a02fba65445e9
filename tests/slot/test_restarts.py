"""A slot that is started again and again and brings the run no further has an end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hpcpod.records.records import Birth, Checkpoint, Report
from hpcpod.slot.restarts import MOST_WITHOUT_PROGRESS, OwnRestarts
from hpcpod.storage.restarts import MOST_SPANS, RestartRecord, Span
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import read_board
from tests.support.slots import SlotProcess
from tests.support.small_runs import SLOW, create


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, resources={"cpus_per_pod": 2})


def started(folder: RunFolder) -> OwnRestarts:
    """One more start of the slot; by the folder the process before was killed."""
    return OwnRestarts(folder, "7_1", folder.resolved.config)


def order(folder: RunFolder) -> Birth:
    (first,) = orders(read_board(folder))
    assert isinstance(first, Birth)
    return first


def without_progress(folder: RunFolder) -> int:
    record = folder.restarts.read("7_1")
    assert record is not None
    return record.without_progress


def reached(folder: RunFolder, env_steps: int) -> None:
    core = folder.blobs.put({}, {"at": env_steps})
    folder.checkpoints.save("p0001", 1, 1, Checkpoint(core, env_steps))


def test_starts_that_bring_the_run_no_further_are_counted_and_the_last_says_what_to_do(
    folder: RunFolder,
) -> None:
    reached(folder, 64)
    for number in range(MOST_WITHOUT_PROGRESS):
        restarts = started(folder)
        assert without_progress(folder) == number
        assert restarts.hopeless == ""
        restarts.begin(order(folder))
    assert "10 lives of this slot in a row" in started(folder).hopeless


def test_a_later_checkpoint_is_progress_also_of_a_slot_that_was_killed(folder: RunFolder) -> None:
    for env_steps in (64, 128):
        started(folder).begin(order(folder))
        started(folder).begin(order(folder))
        assert without_progress(folder) == 1
        reached(folder, env_steps)
        started(folder)
        assert without_progress(folder) == 0


def test_a_report_is_progress_also_of_a_slot_that_was_killed_right_after(folder: RunFolder) -> None:
    started(folder).begin(order(folder))
    started(folder).begin(order(folder))
    assert without_progress(folder) == 1
    folder.reports.publish(Report(order(folder).id, "p0001", 1, 1, "7_1"))
    started(folder)
    assert without_progress(folder) == 0


def test_training_that_is_done_is_progress(folder: RunFolder) -> None:
    started(folder).begin(order(folder))
    checkpoint = Checkpoint(folder.blobs.put({}, {"at": 512}), 512)
    folder.checkpoints.save_trained(
        Report(order(folder).id, "p0001", 1, 1, "7_1", checkpoint=checkpoint)
    )
    started(folder)
    assert without_progress(folder) == 0


def test_a_start_that_found_nothing_to_do_does_not_count(folder: RunFolder) -> None:
    started(folder).begin(order(folder))
    started(folder)
    started(folder)
    assert without_progress(folder) == 1


def test_one_report_is_enough_for_a_start(folder: RunFolder) -> None:
    restarts = started(folder)
    restarts.begin(order(folder))
    restarts.progress(order(folder).id)
    restarts.begin(order(folder))
    started(folder)
    assert without_progress(folder) == 0


def test_what_a_slot_has_and_how_long_it_ran_is_summed_over_its_restarts(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.restarts.save("7_1", RestartRecord(0, 0, True, 100.0, 0.0, 2, 1.7e9))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "4")
    started(folder).save()
    record = folder.restarts.read("7_1")
    assert record is not None
    assert (record.restarts, record.gpus, record.cpus, record.began) == (4, 0.0, 2, 1.7e9)
    assert 100.0 <= record.seconds < 160.0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_slot_that_is_stopped_before_every_checkpoint_gives_up_in_the_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    # An environment without a state to save: whatever ends a process ends the whole round.
    stateless = {"id": "tests.support.faulty_envs:stateless", "backend": "vector"}
    folder = create(tmp_path, **{**SLOW, "env": stateless})
    folder.restarts.save(
        "s", RestartRecord(without_progress=MOST_WITHOUT_PROGRESS - 2, began=1.7e9)
    )
    for _ in range(2):
        folder.slots.drop("s")  # what a process that was killed has shown last
        slot = SlotProcess(folder)
        slot.until_in_mid_round()
        slot.process.send_signal(number)
        assert slot.end() in (75, -signal.SIGKILL), slot.log
    last = SlotProcess(folder)
    assert last.end() == 1
    assert "10 lives of this slot in a row ended before it had reported a round" in last.log
    assert "Traceback" not in last.log


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1.7e9 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("hpcpod.slot.restarts.time", clock)
    return clock


def test_a_slot_accounts_for_each_second_that_it_has(folder: RunFolder, clock: Clock) -> None:
    restarts = started(folder)
    for seconds, doing, name in (
        (2.0, "starting", "p0001-00001-1"), (3.0, "training", "p0001-00001-1"),
        (20.0, "waiting", ""), (1.0, "scoring", "p0001-final0-1"),
    ):  # fmt: skip
        clock.now += seconds
        restarts.look(doing, name)  # type: ignore[arg-type]
    clock.now += 10.0
    restarts.scored(5.0)
    restarts.look("waiting", "")
    restarts.save()
    record = folder.restarts.read("7_1")
    assert record is not None
    assert record.spent == {"starting": 3.0, "training": 15.0, "scoring": 15.0, "waiting": 3.0}
    assert record.seconds == sum(record.spent.values()) == 36.0
    at = 1.7e9 + 1000
    [span] = record.spans
    assert span == Span(at, 36.0, 3.0, "p0001-final0-1", "scoring", at + 26, at + 36)
    restarts.progress("p0001-final0-1")
    restarts.save()
    record = folder.restarts.read("7_1")
    assert record is not None and record.spans == (Span(at, 36.0, 3.0),)


def test_each_start_has_its_times_and_the_last_ones_are_kept(
    folder: RunFolder, clock: Clock
) -> None:
    for _ in range(MOST_SPANS + 3):
        restarts = started(folder)
        clock.now += 6.0
        restarts.save()
        clock.now += 100.0
    record = folder.restarts.read("7_1")
    assert record is not None and len(record.spans) == MOST_SPANS
    assert record.spans[-1] == Span(clock.time() - 106, 6.0)
    assert record.spans[0].began == clock.time() - 106 * MOST_SPANS
    assert record.seconds == record.spent["waiting"] == 6 * (MOST_SPANS + 3)


def test_no_more_is_scoring_than_was_training(folder: RunFolder, clock: Clock) -> None:
    restarts = started(folder)
    restarts.look("training", "p0001-00001-1")
    clock.now += 4.0
    restarts.scored(9.0)
    restarts.save()
    record = folder.restarts.read("7_1")
    assert record is not None
    assert (record.spent["training"], record.spent["scoring"]) == (0.0, 4.0)

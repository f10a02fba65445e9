"""A slot that is started again and again and brings the run no further has an end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hpcpod.records.records import Birth, Checkpoint, Report
from hpcpod.slot.restarts import MOST_WITHOUT_PROGRESS, OwnRestarts
from hpcpod.storage.restarts import Life
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import read_board
from tests.support.slots import SlotProcess
from tests.support.small_runs import SLOW, create


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, resources={"cpus_per_pod": 2})


def born(folder: RunFolder) -> OwnRestarts:
    """One more life of the slot; as far as the folder tells, the one before was killed."""
    return OwnRestarts(folder, "7_1", folder.resolved.config)


def order(folder: RunFolder) -> Birth:
    (first,) = orders(read_board(folder))
    assert isinstance(first, Birth)
    return first


def in_vain(folder: RunFolder) -> int:
    life = folder.restarts.read("7_1")
    assert life is not None
    return life.in_vain


def reached(folder: RunFolder, env_steps: int) -> None:
    core = folder.blobs.put({}, {"at": env_steps})
    folder.checkpoints.save("p0001", 1, 1, Checkpoint(core, env_steps))


def test_lives_that_bring_the_run_no_further_are_counted_and_the_last_says_what_to_do(
    folder: RunFolder,
) -> None:
    reached(folder, 64)
    for number in range(MOST_WITHOUT_PROGRESS):
        life = born(folder)
        assert in_vain(folder) == number
        assert life.hopeless == ""
        life.begin(order(folder))
    assert "10 lives of this slot in a row" in born(folder).hopeless


def test_a_later_checkpoint_is_progress_also_of_a_life_that_was_killed(folder: RunFolder) -> None:
    for env_steps in (64, 128):
        born(folder).begin(order(folder))
        born(folder).begin(order(folder))
        assert in_vain(folder) == 1
        reached(folder, env_steps)
        born(folder)
        assert in_vain(folder) == 0


def test_a_report_is_progress_also_of_a_life_that_was_killed_right_after(folder: RunFolder) -> None:
    born(folder).begin(order(folder))
    born(folder).begin(order(folder))
    assert in_vain(folder) == 1
    folder.reports.publish(Report(order(folder).id, "p0001", 1, 1, "7_1"))
    born(folder)
    assert in_vain(folder) == 0


def test_training_that_is_done_is_progress(folder: RunFolder) -> None:
    born(folder).begin(order(folder))
    checkpoint = Checkpoint(folder.blobs.put({}, {"at": 512}), 512)
    folder.checkpoints.save_trained(
        Report(order(folder).id, "p0001", 1, 1, "7_1", checkpoint=checkpoint)
    )
    born(folder)
    assert in_vain(folder) == 0


def test_a_life_that_found_nothing_to_do_does_not_count(folder: RunFolder) -> None:
    born(folder).begin(order(folder))
    born(folder)
    born(folder)
    assert in_vain(folder) == 1


def test_one_report_is_enough_for_a_life(folder: RunFolder) -> None:
    life = born(folder)
    life.begin(order(folder))
    life.progress()
    life.begin(order(folder))
    born(folder)
    assert in_vain(folder) == 0


def test_what_a_slot_has_and_how_long_it_lived_is_summed_over_its_lives(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.restarts.save("7_1", Life(0, 0, True, 100.0, 0.0, 2, 1.7e9))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "4")
    born(folder).save()
    life = folder.restarts.read("7_1")
    assert life is not None
    assert (life.restarts, life.gpus, life.cpus, life.began) == (4, 0.0, 2, 1.7e9)
    assert 100.0 <= life.seconds < 160.0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_slot_that_is_stopped_before_every_checkpoint_gives_up_in_the_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    # An environment without a state to save: whatever ends a life ends the whole round.
    stateless = {"id": "tests.support.faulty_envs:stateless", "backend": "vector"}
    folder = create(tmp_path, **{**SLOW, "env": stateless})
    folder.restarts.save("s", Life(in_vain=MOST_WITHOUT_PROGRESS - 2, began=1.7e9))
    for _ in range(2):
        folder.slots.drop("s")  # what a life that was killed has shown last
        slot = SlotProcess(folder)
        slot.until_in_mid_round()
        slot.process.send_signal(number)
        assert slot.end() in (75, -signal.SIGKILL), slot.log
    last = SlotProcess(folder)
    assert last.end() == 1
    assert "10 lives of this slot in a row ended before it had reported a round" in last.log
    assert "Traceback" not in last.log

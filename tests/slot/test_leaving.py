"""A slot gives its place back when it is asked to: at once, or after its round."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from hpcpod.records.records import Owner
from hpcpod.storage.requests import Drain
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from tests.support.slots import SlotProcess, gone
from tests.support.small_runs import SLOW, create

BESIDE: dict[str, Any] = {**SLOW, "pod": {**SLOW["pod"], "score_beside": True}}
ORDER = "p0001-00001-1"


def retire_now(folder: RunFolder) -> None:
    folder.slots.retire("s", "now", "others wait")


def pause_now(folder: RunFolder) -> None:
    folder.requests.publish(Drain(now=True, reason=""))


@pytest.mark.parametrize("ask", [retire_now, pause_now])
def test_a_slot_that_is_to_leave_now_checkpoints_and_does_not_ask_to_come_back(
    ask: Any, tmp_path: Path
) -> None:
    folder = create(tmp_path, **SLOW)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    ask(folder)
    assert slot.end() == 0, slot.log
    assert folder.checkpoints.latest("p0001", 1) is not None
    assert folder.reports.read(ORDER) is None
    assert slot.status() == {}


@pytest.mark.parametrize("when", ["now", "round"])
def test_a_retiring_slot_that_is_signalled_first_does_not_ask_to_come_back(
    when: Any, tmp_path: Path
) -> None:
    folder = create(tmp_path, **SLOW)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    slot.process.send_signal(signal.SIGUSR2)
    folder.slots.retire("s", when, "others wait")
    assert slot.end() == 0, slot.log
    assert folder.checkpoints.latest("p0001", 1) is not None


def test_a_slot_that_is_started_again_all_the_same_ends_before_it_claims(tmp_path: Path) -> None:
    folder = create(tmp_path, **SLOW)
    retire_now(folder)
    slot = SlotProcess(folder)
    assert slot.end() == 0, slot.log
    assert folder.claims.owner(ORDER) is None


@pytest.mark.parametrize("sections", [SLOW, BESIDE], ids=["alone", "beside"])
def test_a_slot_that_retires_after_its_round_reports_it_and_leaves_nothing_begun(
    sections: dict[str, Any], tmp_path: Path
) -> None:
    folder = create(tmp_path, **sections)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    folder.slots.retire("s", "round", "the night is over")
    assert slot.end() == 0, slot.log
    report = folder.reports.read(ORDER)
    assert report is not None and report.failure == ""
    assert read_board(folder).reports == 1
    assert folder.claims.owner("p0001-00002-1") is None
    assert folder.checkpoints.latest("p0001", 2) is None


def test_lanes_of_an_element_that_retires_all_leave_and_others_stay(tmp_path: Path) -> None:
    folder = create(tmp_path, "ppo", "dqn", **SLOW)
    lane, other = SlotProcess(folder, slot="7_1+1"), SlotProcess(folder, slot="7_2+0")
    lane.until_in_mid_round()
    other.until_in_mid_round()
    folder.slots.retire("7_1", "now", "others wait")
    assert lane.end() == 0, lane.log
    other.process.send_signal(signal.SIGTERM)
    # srun tells TERM before the KILL of another lane, and either before any exit code
    assert other.end() == -signal.SIGTERM, other.log


def test_the_training_process_is_there_before_there_is_something_to_do(tmp_path: Path) -> None:
    folder = create(tmp_path, **SLOW)
    assert folder.claims.take(ORDER, Owner("another", "job"))
    slot = SlotProcess(folder)
    child = slot.child().pid
    assert "order" not in slot.status()
    slot.process.send_signal(signal.SIGTERM)
    assert slot.end() == 75, slot.log
    assert gone(child)

"""Identities: a process that may work on a run, and one that is still alive."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

import pytest

from hpcpod.errors import UserError
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.launchers.identity import STALE_SECONDS, admitted, alive, identity
from hpcpod.records.records import Intent, Owner
from tests.support.slots import SlotProcess
from tests.support.small_runs import create

NOBODY = ClusterView()
HAND = "hand-elsewhere-1"


def test_a_slot_of_the_scheduler_lives_as_long_as_the_scheduler_says() -> None:
    view = ClusterView((JobView("7_0", "7_0", "slots", "pending", "t"),))
    assert alive(Owner("7_0", "7"), view, {})
    assert not alive(Owner("7_1", "7"), view, {})


def test_a_slot_by_hand_on_another_host_lives_as_long_as_it_shows_something() -> None:
    owner = Owner(HAND, HAND, "elsewhere", os.getpid())
    assert alive(owner, NOBODY, {HAND: STALE_SECONDS - 1})
    assert not alive(owner, NOBODY, {HAND: STALE_SECONDS + 1})
    assert not alive(owner, NOBODY, {HAND: float("inf")})


def test_a_slot_by_hand_on_this_host_lives_no_longer_than_its_process() -> None:
    here = identity()
    assert here.host == socket.gethostname()
    assert alive(here, NOBODY, {here.slot: 0.0})
    assert not alive(here, NOBODY, {here.slot: STALE_SECONDS + 1})  # another has its number
    gone = Owner(here.slot, here.job, here.host, 2**22 + 1)
    assert not alive(gone, NOBODY, {here.slot: 0.0})


def test_the_first_job_of_an_intent_is_admitted_and_stays_so(tmp_path: Path) -> None:
    folder = create(tmp_path)
    folder.intents.publish(Intent(0, "t0k3n", "slots"))
    assert admitted(folder, "t0k3n", Owner("7_0", "7"))
    assert not admitted(folder, "t0k3n", Owner("8_0", "8"))
    assert admitted(folder, "t0k3n", Owner("7_0", "7"))
    assert admitted(folder, None, Owner(HAND, HAND))


def test_a_script_that_only_a_dry_run_printed_fails_and_its_log_says_why(tmp_path: Path) -> None:
    folder = create(tmp_path)
    with pytest.raises(UserError, match="no submission of this run is called TOKEN"):
        admitted(folder, "TOKEN", Owner("7_0", "7"))
    slot = SlotProcess(folder, token="TOKEN")
    assert slot.end() == 2
    assert "`hpcpod render` writes scripts" in slot.log
    assert "Traceback" not in slot.log


def test_a_lane_that_has_ended_is_gone_though_its_element_goes_on() -> None:
    lane = Owner("7_0+1", "7")

    def lives(state: Literal["pending", "running"], seconds: float, silent: float) -> bool:
        view = ClusterView((JobView("7_0", "7_0", "slots", state, "t", seconds=seconds),))
        return alive(lane, view, {"7_0+1": silent})

    old = STALE_SECONDS + 1
    assert lives("running", old, 1.0)
    assert not lives("running", old, old) and not lives("running", old, float("inf"))
    assert lives("running", 5.0, old), "it has been requeued and only begins"
    assert lives("pending", 0.0, old)


def test_a_person_s_own_job_is_named_as_one_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert identity().slot == "12"  # of a submission of the run's
    assert identity(alone=True).slot == f"hand-{socket.gethostname()}-{os.getpid()}"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "11")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert identity(alone=True).slot == "11_3", "a script that `hpcpod render` wrote"


def test_an_intent_that_a_node_believed_missing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path)
    published = []

    def refreshed(disk: object, path: Path) -> bool:
        published.append(path)
        return folder.intents.publish(Intent(0, "t0k3n", "slots"))

    monkeypatch.setattr("hpcpod.launchers.identity.refresh_folder", refreshed)
    assert admitted(folder, "t0k3n", Owner("7_0", "7"))
    assert published == [folder.path / "intents"]

"""Identities: a process that may work on a run, and one that is still alive."""

from __future__ import annotations

import os
import socket
from pathlib import Path

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

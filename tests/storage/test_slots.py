"""Files of slots in a run folder: requests to retire, and the record of their restarts."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import replace
from typing import Any

import pytest

from hpcpod.records.records import encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.layout import sharded
from hpcpod.storage.restarts import Begun, RestartRecord
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import OrderStatus, SlotStatus

RECORD = RestartRecord(3, 1, False, 61.5, 0.5, 4, 1.7e9, {"p1-00001-1": Begun("p1", 1, 512)})


def test_whoever_is_asked_to_retire_knows_when_and_asking_again_only_hastens_it(
    run: RunFolder,
) -> None:
    assert run.slots.retiring("7_3") is None
    run.slots.retire("7_3", "round", "the night is over")
    assert run.slots.retiring("7_3") == "round"
    assert run.slots.retiring("7_30") is None
    run.slots.retire("7_3", "now", "others wait")
    run.slots.retire("7_3", "round", "never mind")
    assert run.slots.retiring("7_3") == "now"


def test_slots_that_share_an_element_retire_together(run: RunFolder) -> None:
    run.slots.retire("7_3", "now", "others wait")
    assert run.slots.retiring("7_3+0") == run.slots.retiring("7_3+1") == "now"
    run.slots.retire("8_1+1", "round", "others wait")
    assert run.slots.retiring("8_1+0") == run.slots.retiring("8_1") == "round"


def test_a_damaged_marker_asks_for_nothing_and_is_set_aside(run: RunFolder) -> None:
    run.slots.retire("7_3", "now", "others wait")
    (run.path / "control" / "retire" / "7_3.json").write_bytes(b"half of")
    assert run.slots.retiring("7_3") is None
    assert "control+retire+7_3.json" in run.quarantine.list()[0].name


def test_restarts_are_recorded_by_slot_and_a_torn_one_is_passed_over(run: RunFolder) -> None:
    assert run.restarts.read("7_3") is None
    assert run.restarts.all() == {}
    run.restarts.save("7_3", RestartRecord())
    run.restarts.save("7_3", RECORD)
    run.restarts.save("7_4+1", replace(RECORD, gpus=8.0))
    assert run.restarts.read("7_3") == RECORD
    assert run.restarts.all() == {"7_3": RECORD, "7_4+1": replace(RECORD, gpus=8.0)}
    (path,) = (run.path / "lives").glob("*/7_3.json")
    written = b'{"restarts":3,"in_vain":1,"progress":false,"seconds":61.5,"gpus":0.5,"cpus":4,'
    assert written in path.read_bytes(), "the keys are those of version 0.1.0"
    path.write_bytes(b"")  # the machine has crashed
    assert run.restarts.read("7_3") is None
    assert list(run.restarts.all()) == ["7_4+1"]
    assert run.quarantine.list() == []


@pytest.mark.parametrize("number", [math.inf, math.nan, -1.0, 1e300])
@pytest.mark.parametrize("name", ["seconds", "gpus"])
def test_numbers_that_no_record_has_are_not_reckoned_with(
    run: RunFolder, name: str, number: float
) -> None:
    path = sharded(run.path / "lives", "7_3", ".json")
    run.disk.replace(path, pack({**encode(RECORD), name: number}))
    assert run.restarts.all() == {}


PLACE: dict[str, Any] = {"job": "7", "host": "node4", "pid": 12}
TRAINING: dict[str, Any] = {"state": "training", "order": "p1-00002-1", "pod": "p1", "round": 2,
            "algorithm": "ppo"}  # fmt: skip
WRITTEN: list[tuple[SlotStatus, str]] = [
    (SlotStatus("idle", **PLACE), '{"state":"idle","job":"7","host":"node4","pid":12}'),
    (
        SlotStatus(
            **TRAINING, env_steps=3, target_steps=512, mean_return=1.5, steps_per_second=10.0,
            scoring=OrderStatus("scoring", "p1-00001-1", "p1", 1, "ppo"), ahead=True, **PLACE,
        ),
        '{"state":"training","order":"p1-00002-1","pod":"p1","round":2,"algorithm":"ppo",'
        '"env_steps":3,"target_steps":512,"mean_return":1.5,"steps_per_second":10.0,'
        '"scoring":{"state":"scoring","order":"p1-00001-1","pod":"p1","round":1,'
        '"algorithm":"ppo"},"ahead":true,"job":"7","host":"node4","pid":12}',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("status", "payload"), WRITTEN)
def test_a_status_is_written_as_before_and_read_as_it_was_shown(
    run: RunFolder, status: SlotStatus, payload: str
) -> None:
    """The bytes are those of version 0.1.0."""
    run.slots.write("7_3", status)
    path = run.path / "slots" / "7_3.json"
    assert path.read_bytes() == pack(json.loads(payload))
    assert path.read_bytes().endswith(f"{payload}}}\n".encode())
    assert run.slots.all() == {"7_3": replace(status, mtime=path.stat().st_mtime)}


def test_numbers_of_another_version_are_passed_over_in_a_status(run: RunFolder) -> None:
    shown = {**TRAINING, "watts": 300, "scoring": {"order": "p1-00001-1", "watts": 3.0}}
    run.disk.replace(run.path / "slots" / "7_3.json", pack(shown))
    status = run.slots.all()["7_3"]
    assert (status.order, status.round) == ("p1-00002-1", 2)
    assert status.scoring == OrderStatus(order="p1-00001-1")


def test_a_whole_number_that_is_no_float_is_not_shown(run: RunFolder) -> None:
    run.slots.write("7_3", SlotStatus(state="training", order="o-1", env_steps=10**400))
    assert run.slots.all() == {}


def test_names_that_a_record_gives_lead_nowhere(run: RunFolder) -> None:
    """They become files' names when it is asked what the slot has brought."""
    path = sharded(run.path / "lives", "7_3", ".json")
    for order, pod in (("../p1-1", "p1"), ("", "p1"), ("\ud800", "p1"), ("p1-1", "a/b")):
        run.disk.replace(path, pack(encode(replace(RECORD, orders={order: Begun(pod, 1)}))))
        assert run.restarts.read("7_3") is None
        assert run.restarts.all() == {}


def test_what_a_slot_scores_has_nothing_that_it_scores_beside(run: RunFolder) -> None:
    """However deep somebody has nested it."""
    shown: dict[str, object] = {"order": "o-1"}
    for _ in range(400):
        shown = {"order": "o-1", "scoring": shown}
    run.disk.replace(run.path / "slots" / "7_3.json", pack(shown))
    assert run.slots.all() == {}


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_hours_wrong_takes_no_slot_for_silent_and_none_for_heard(
    run: RunFolder, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.slots.write("hand-a", SlotStatus(state="idle"))
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + hours * 3600)  # this node's
    assert abs(run.slots.silence("hand-a")) < 60
    os.utime(run.path / "slots" / "hand-a.json", (true() - 600, true() - 600))
    assert 590 < run.slots.silence("hand-a") < 700
    assert run.slots.silence("hand-b") == math.inf


def test_a_status_that_has_not_changed_is_not_read_again(run: RunFolder) -> None:
    for slot in ("7_0", "7_1"):
        run.slots.write(slot, SlotStatus(state="idle", host="n", pid=1))
    known = run.slots.all()
    assert set(known) == {"7_0", "7_1"}
    run.slots.write("7_1", SlotStatus(state="training", host="n", pid=1))
    os.utime(run.path / "slots" / "7_1.json", ns=(0, 2 * 10**9))
    again = run.slots.all(known)
    assert again["7_0"] is known["7_0"]
    assert (again["7_1"].state, again["7_1"].mtime) == ("training", 2.0)
    run.slots.drop("7_0")
    assert set(run.slots.all(again)) == {"7_1"}


def test_a_record_of_an_older_version_has_no_footprint(run: RunFolder) -> None:
    old = encode(RECORD)
    for name in ("peak_mib", "cpu_seconds", "measured", "gpu_busy", "gpu_looks"):
        del old[name]
    path = sharded(run.path / "lives", "7_1", ".json")
    path.parent.mkdir(parents=True)
    path.write_bytes(pack(old))
    assert run.restarts.read("7_1") == RECORD

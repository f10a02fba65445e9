"""What a run folder says of slots: who is to retire, and the lives that each has had."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace

import pytest

from hpcpod.records.records import encode
from hpcpod.storage.checksummed import seal
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import Begun, Life

LIFE = Life(3, 1, False, 61.5, 0.5, 4, 1.7e9, {"p1-00001-1": Begun("p1", 1, 512)})


def test_whoever_is_asked_to_retire_knows_when_and_asking_again_only_hastens_it(
    run: RunFolder,
) -> None:
    assert run.retiring("7_3") is None
    run.retire("7_3", "round", "the night is over")
    assert run.retiring("7_3") == "round"
    assert run.retiring("7_30") is None
    run.retire("7_3", "now", "others wait")
    run.retire("7_3", "round", "never mind")
    assert run.retiring("7_3") == "now"


def test_slots_that_share_an_element_retire_together(run: RunFolder) -> None:
    run.retire("7_3", "now", "others wait")
    assert run.retiring("7_3+0") == run.retiring("7_3+1") == "now"
    run.retire("8_1+1", "round", "others wait")
    assert run.retiring("8_1+0") == run.retiring("8_1") == "round"


def test_a_damaged_marker_asks_for_nothing_and_is_set_aside(run: RunFolder) -> None:
    run.retire("7_3", "now", "others wait")
    (run.path / "control" / "retire" / "7_3.json").write_bytes(b"half of")
    assert run.retiring("7_3") is None
    assert "control+retire+7_3.json" in run.quarantined()[0].name


def test_lives_are_kept_by_slot_and_a_torn_one_is_passed_over(run: RunFolder) -> None:
    assert run.life("7_3") is None
    assert run.lives() == {}
    run.save_life("7_3", Life())
    run.save_life("7_3", LIFE)
    run.save_life("7_4+1", replace(LIFE, gpus=8.0))
    assert run.life("7_3") == LIFE
    assert run.lives() == {"7_3": LIFE, "7_4+1": replace(LIFE, gpus=8.0)}
    (path,) = (run.path / "lives").glob("*/7_3.json")
    path.write_bytes(b"")  # the machine has crashed
    assert run.life("7_3") is None
    assert list(run.lives()) == ["7_4+1"]
    assert run.quarantined() == []


@pytest.mark.parametrize("number", [math.inf, math.nan, -1.0, 1e300])
@pytest.mark.parametrize("name", ["seconds", "gpus"])
def test_numbers_that_no_life_has_are_not_reckoned_with(
    run: RunFolder, name: str, number: float
) -> None:
    path = sharded(run.path / "lives", "7_3", ".json")
    run.disk.replace(path, seal({**encode(LIFE), name: number}))
    assert run.lives() == {}


def test_a_whole_number_that_is_no_float_is_not_shown(run: RunFolder) -> None:
    run.write_slot("7_3", {"state": "training", "order": "o-1", "env_steps": 10**400})
    assert run.slots() == {}


def test_names_that_a_life_gives_lead_nowhere(run: RunFolder) -> None:
    """They become files' names when it is asked what the life has brought."""
    path = sharded(run.path / "lives", "7_3", ".json")
    for order, pod in (("../p1-1", "p1"), ("", "p1"), ("\ud800", "p1"), ("p1-1", "a/b")):
        run.disk.replace(path, seal(encode(replace(LIFE, orders={order: Begun(pod, 1)}))))
        assert run.life("7_3") is None
        assert run.lives() == {}


def test_what_a_slot_scores_has_nothing_that_it_scores_beside(run: RunFolder) -> None:
    """However deep somebody has nested it."""
    shown: dict[str, object] = {"order": "o-1"}
    for _ in range(400):
        shown = {"order": "o-1", "scoring": shown}
    run.write_slot("7_3", shown)
    assert run.slots() == {}


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_hours_wrong_takes_no_slot_for_silent_and_none_for_heard(
    run: RunFolder, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.write_slot("hand-a", {"state": "idle"})
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + hours * 3600)  # this node's
    assert abs(run.silence("hand-a")) < 60
    os.utime(run.path / "slots" / "hand-a.json", (true() - 600, true() - 600))
    assert 590 < run.silence("hand-a") < 700
    assert run.silence("hand-b") == math.inf

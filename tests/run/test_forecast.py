"""What a run has used, and when its limits end it: worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records import Birth, Board, PodState
from hpcpod.run.forecast import Forecast, forecast, used
from hpcpod.storage.slots import Life


def pod(name: str, round: int | None, **changes: Any) -> PodState:
    birth = None if round is None else Birth(name, round, 1, "ppo", {}, 0)
    return replace(PodState(name, "ppo", "ppo", {}, 0, "fresh", birth=birth), **changes)


def board(**changes: Any) -> Board:
    pods = {p.id: p for p in (pod("p1", 5), pod("p2", 3), pod("p3", None, fate="replaced"))}
    whole = Board(started=0.0, began=100.0, pods=pods, env_steps=60_000, rounds=6)
    return replace(whole, **changes)


def told(stop: StopConfig, on: Board | None = None, at_work: int = 2) -> Forecast | None:
    return forecast(on or board(), stop, slot_seconds=1200.0, at_work=at_work, now=700.0)


def test_minutes_count_from_when_the_first_slot_began() -> None:
    assert told(StopConfig(minutes=60)) == Forecast("minutes", 100 + 3600 - 700)
    assert told(StopConfig(minutes=1)) == Forecast("minutes", 0.0)
    assert told(StopConfig(minutes=60), board(began=None)) is None


def test_steps_come_at_the_rate_of_a_slot_so_far_by_the_slots_of_now() -> None:
    # 60,000 steps in 1,200 slot-seconds: 50 a second for each slot.
    assert told(StopConfig(env_steps=90_000)) == Forecast("env_steps", 30_000 / 100)
    assert told(StopConfig(env_steps=90_000), at_work=6) == Forecast("env_steps", 30_000 / 300)
    assert told(StopConfig(env_steps=90_000), at_work=0) is None
    assert told(StopConfig(env_steps=90_000), board(env_steps=0)) is None


def test_rounds_of_a_pod_follow_each_other() -> None:
    # 200 slot-seconds a round; of 8 rounds 4 are left to the one and 6 to the other.
    assert told(StopConfig(rounds=8)) == Forecast("rounds", 200 * 6)
    assert told(StopConfig(rounds=8), at_work=1) == Forecast("rounds", 200 * 10)


def test_the_first_limit_counts() -> None:
    stop = StopConfig(minutes=60, env_steps=90_000, rounds=8)
    assert told(stop) == Forecast("env_steps", 300)
    assert told(StopConfig(target=1.0)) is None


@pytest.mark.parametrize("phase", ["finals", "finished"])
def test_a_run_that_has_met_its_limit_has_none_before_it(phase: Any) -> None:
    assert told(StopConfig(minutes=60), board(phase=phase)) is None


def test_what_slots_had_adds_up_and_those_of_one_job_were_requeued_once() -> None:
    lives = {
        "7_0+0": Life(restarts=2, seconds=3600, gpus=0.5, cpus=2),
        "7_0+1": Life(restarts=1, seconds=3600, gpus=0.5, cpus=2),
        "7_1": Life(restarts=1, seconds=1800, gpus=1, cpus=4),
    }
    all_of_it = used(lives)
    assert all_of_it.requeues == 3
    assert all_of_it.slot_seconds == 9000
    assert all_of_it.gpu_hours == pytest.approx(1.5)
    assert all_of_it.core_hours == pytest.approx(6.0)

"""The use of a run and the forecast of its end, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.schema import (
    ClusterConfig,
    EnsemblesConfig,
    EnvConfig,
    PopulationConfig,
    ResourcesConfig,
    RoundConfig,
    RunConfig,
    SnapshotsConfig,
    StopConfig,
)
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.checkpoints import Checkpoint
from hpcpod.records.policy_snapshots import PolicySnapshot
from hpcpod.records.records import (
    Birth,
    Board,
    Entry,
    Evaluation,
    Finals,
    Member,
    PodState,
    Rescore,
)
from hpcpod.run.forecast import Forecast, forecast, last_rounds
from hpcpod.storage.requests import Drain
from hpcpod.storage.restarts import RestartRecord
from tests.support.slots import statuses

NOW = 700.0
NOTICE, AWAY = 2.0, 6.0
"""Seconds until slots are at work on the finals: on this machine, and on others."""


def pod(
    name: str, each: float, done: int, *, algorithm: str = "ppo", panel: float = 0.0, **changes: Any
) -> PodState:
    """A pod that has trained some rounds of ``each`` slot-seconds, ``panel`` of them its score."""
    history = tuple(
        Evaluation(r, (1.0, 1.0), Checkpoint("c", r), {}, each * r, panel)
        for r in range(max(1, done - 3), done + 1)
    )
    birth = Birth(name, done + 1, 1, algorithm, {}, 0)
    whole = PodState(
        name, algorithm, algorithm, {}, 0, "fresh", birth=birth, history=history, cost=each * done
    )
    return replace(whole, **changes)


def training(pod: PodState, steps: int = 0, **more: Any) -> dict[str, Any]:
    """What a slot shows that trains a pod's next round, of which some steps are done."""
    assert pod.birth is not None
    shown = {"state": "training", "order": pod.birth.id, "pod": pod.id, "round": pod.birth.round}
    return {**shown, "env_steps": 1000 * (pod.birth.round - 1) + steps, "mtime": NOW, **more}


def seen(
    stop: StopConfig,
    *pods: PodState,
    slots: Any = None,
    board: Any = None,
    config: Any = None,
    **changes: Any,
) -> Snapshot:
    """A run with rounds of 1,000 steps and panels of 32; one slot for each pod that begins it."""
    whole = RunConfig(
        "run", EnvConfig("Task-v0"), round=RoundConfig(env_steps=1000, episodes=32), stop=stop
    )
    state = Board(started=0.0, began=100.0, pods={each.id: each for each in pods})
    state = replace(state, rounds=sum(len(each.history) for each in pods), **(board or {}))
    begun = [each for each in pods if each.birth is not None]
    shown = {f"local-0-{n}": training(each) for n, each in enumerate(begun)}
    found = Snapshot(
        Path("run"), replace(whole, **(config or {})), state, NOW, NOW,
        slots=statuses(shown if slots is None else slots),
    )  # fmt: skip
    return replace(found, **changes)


def seconds(of: Snapshot, wanted: int | None = None) -> float:
    told = forecast(replace(of, places=wanted))
    assert told is not None
    assert told.low <= told.seconds <= told.high
    return told.seconds


def test_minutes_count_from_when_the_first_slot_began() -> None:
    assert forecast(seen(StopConfig(minutes=60))) == Forecast("minutes", 3000, 3000, 3000.5)
    assert seconds(seen(StopConfig(minutes=1))) == 0.0
    assert forecast(seen(StopConfig(minutes=60), board={"began": None})) is None


def test_rounds_take_each_pod_its_own_time() -> None:
    fast, slow = pod("p1", 10, 6), pod("p2", 100, 2, algorithm="sac")
    # Of 8 rounds 2 are left to the one and 6 to the other, which begins one now.
    told = forecast(seen(StopConfig(rounds=8), fast, slow))
    assert told is not None
    assert told.limit == "rounds"
    assert told.seconds == pytest.approx(600 + NOTICE)
    assert last_rounds(seen(StopConfig(rounds=8), fast, slow)).keys() == {"p1", "p2"}


def test_what_is_done_of_the_round_in_hand_is_not_done_again() -> None:
    slow = pod("p1", 100, 2, panel=20)
    stop = StopConfig(rounds=3, finalists=1, confirm_episodes=32)
    slots = {"local-0-0": training(slow, 750)}
    # A quarter of 80 seconds, the panel, and as large a one on fresh seeds.
    assert seconds(seen(stop, slow, slots=slots)) == pytest.approx(20 + 20 + NOTICE + 20)
    late = {"local-0-0": {**slots["local-0-0"], "mtime": NOW - 10}}
    assert seconds(seen(stop, slow, slots=late)) == pytest.approx(10 + 20 + NOTICE + 20)


def test_with_fewer_slots_than_pods_their_rounds_follow_each_other() -> None:
    pods = [pod(f"p{n}", 10, 1) for n in range(4)]
    one = {"local-0-0": training(pods[0])}
    assert seconds(seen(StopConfig(rounds=2), *pods, slots=one)) == pytest.approx(40 + NOTICE)


def test_a_pod_without_a_round_is_forecast_by_its_speed_and_else_by_its_kin() -> None:
    fast, new = pod("p1", 10, 3), pod("p2", 0, 0, algorithm="sac")
    stop = StopConfig(rounds=4)
    speed = {"s": training(new, 500, steps_per_second=2.0)}  # 250 seconds more, and its panel
    by_speed = forecast(seen(stop, fast, new, slots={"t": training(fast), **speed}))
    assert by_speed is not None
    assert by_speed.seconds == pytest.approx((250 + 3 * 500) * 1.15, rel=0.1)
    kin = pod("p3", 50, 3, algorithm="sac")
    assert seconds(seen(stop, fast, new, kin)) == pytest.approx(4 * 50 + NOTICE)
    assert seconds(seen(stop, fast, new)) == pytest.approx(4 * 10 + NOTICE)


def test_a_range_narrows_while_rounds_are_measured() -> None:
    def width(done: int) -> float:
        told = forecast(seen(StopConfig(rounds=20), pod("p1", 10, done)))
        assert told is not None
        return told.high / told.low

    assert width(1) > 2.0 > width(4)
    guessed = forecast(seen(StopConfig(rounds=20), pod("p1", 10, 4), pod("p2", 0, 0)))
    assert guessed is not None
    assert guessed.high / guessed.low > width(4)


def test_steps_are_those_of_all_pods() -> None:
    pods = pod("p1", 10, 2), pod("p2", 50, 1, algorithm="sac")
    stop = StopConfig(env_steps=9000)
    told = forecast(seen(stop, *pods, board={"env_steps": 3000}))
    # Six rounds: five of the fast one, and at 50 seconds one of the slow one.
    assert told is not None
    assert told.limit == "env_steps"
    assert told.seconds == pytest.approx(50 + NOTICE)
    both = replace(stop, rounds=3)
    assert seconds(seen(both, *pods, board={"env_steps": 0})) == pytest.approx(100 + NOTICE)


@pytest.mark.parametrize(
    "rule", [PopulationConfig(generator="random_search"), PopulationConfig(allocator="replicates")]
)
def test_where_a_pod_that_is_done_is_followed_by_another_the_budget_ends_the_run(
    rule: PopulationConfig,
) -> None:
    config = {"population": rule}
    stop = StopConfig(env_steps=20_000, rounds=5)
    run = seen(stop, pod("p1", 10, 4), config=config, board={"env_steps": 14_000})
    assert last_rounds(run) == {}
    told = forecast(run)
    assert told is not None
    assert told.limit == "env_steps"
    assert told.seconds == pytest.approx(60 + NOTICE)
    alone = seen(StopConfig(rounds=5), pod("p1", 10, 4), config=config)
    assert seconds(alone) == pytest.approx(10 + NOTICE)


def test_finals_come_after_the_limit_as_many_at_once_as_there_are_slots() -> None:
    pods = [pod(f"p{n}", 10, 2, panel=4) for n in range(3)]
    entries = tuple(
        Entry(each.id, "ppo", 2, 1.0, 1.0, 1.0, 32, Checkpoint("c", 2)) for each in pods
    )
    stop = StopConfig(minutes=10 + 1 / 60, finalists=3, confirm_episodes=128)
    slots = {"a": training(pods[0]), "b": training(pods[1])}
    run = seen(stop, *pods, slots=slots, board={"entries": entries})
    # Two slots play a batch of 32 of each finalist, 4 s each, and half of the nine that may come.
    select = 2 * 4 + 4.5 * 4 / 2
    # A panel of 128 is as long as three of 32; the ensemble of three takes three times that.
    assert seconds(run) == pytest.approx(1 + NOTICE + select + 3 * 12 + 12)
    told = forecast(run)
    assert told is not None
    assert told.low < told.seconds - 9 < told.seconds + 9 < told.high, "none of the nine, or all"
    single = replace(stop, ensembles=EnsemblesConfig(rules=()))
    run = seen(single, *pods, slots=slots, board={"entries": entries})
    assert seconds(run) == pytest.approx(1 + NOTICE + select + 12)
    begun = replace(
        run.board, phase="finals", stop_reason="minutes", stopped=NOW - 4,
        finals=Finals("confirm", finalists=(Member("p0", 2, "ppo", {}, Checkpoint("c", 2)),)),
        rescores={"p0": Rescore("candidate", 0, "p0", 1, "ppo", {}, Checkpoint("c", 2), 2)},
    )  # fmt: skip
    held = {"state": "scoring", "order": "p0-candidate0-1", "pod": "p0", "round": 2, "mtime": NOW}
    run = seen(
        single,
        *pods,
        slots={"a": held},
        board={k: v for k, v in vars(begun).items() if k != "rounds"},
    )
    assert seconds(run) == pytest.approx(12 - 4 + 12), "the report is still to come"


def test_before_any_panel_was_measured_finals_are_not_guessed() -> None:
    new = pod("p1", 0, 0)
    slots = {"a": training(new, 10, steps_per_second=0.01)}
    assert seconds(seen(StopConfig(minutes=60), new, slots=slots)) == 3000


def test_finals_that_have_begun_are_told_of_until_they_end() -> None:
    first = pod("p1", 10, 2, panel=4)
    entry = Entry("p1", "ppo", 2, 1.0, 1.0, 1.0, 32, Checkpoint("c", 2))
    order = Rescore("final", 0, "p1", 1, "ppo", {}, Checkpoint("c", 2), 2)
    board = {
        "entries": (entry,), "rescores": {"p1": order}, "phase": "finals", "stopped": NOW - 5,
        "stop_reason": "rounds",
    }  # fmt: skip
    slots = {"a": {"state": "scoring", "order": order.id, "pod": "p1", "round": 2, "mtime": NOW}}
    run = seen(StopConfig(rounds=2, confirm_episodes=128), first, slots=slots, board=board)
    assert seconds(run) == pytest.approx(12 - 5)
    overdue = replace(run, clock=NOW + 100)
    assert seconds(overdue) == pytest.approx(0.3 * 105)
    assert forecast(replace(run, board=replace(run.board, phase="finished"))) is None


def test_snapshots_are_scored_after_the_finals_and_count() -> None:
    # a panel of 32 takes 4 s, so one of 128 is 12 s and one of 8 takes 4 * (8 + 16) / (32 + 16) = 2
    pods = [pod(f"p{n}", 10, 2, panel=4) for n in range(2)]
    entry = Entry("p0", "ppo", 2, 1.0, 1.0, 1.0, 32, Checkpoint("c", 2))
    kept = {
        str(number): PolicySnapshot(number, 2, 9, "p0", number, Checkpoint(f"c{number}", 9))
        for number in (1, 3)
    }
    stop = StopConfig(minutes=10 + 40 / 60, finalists=1, confirm_episodes=128)
    config = {"snapshots": SnapshotsConfig(10.0, 8)}
    board = {"entries": (entry,), "snapshots": kept, "snapshot_times": 4}
    slots = {"a": training(pods[0])}
    run = seen(stop, *pods, slots=slots, board=board, config=config)
    # two policies at four times: of the four times that come in 40 s two more are new
    assert seconds(run) == pytest.approx(40 + NOTICE + 12 + (2 + 2) * 2)
    final = Rescore("final", 0, "p0", 1, "ppo", {}, Checkpoint("c", 2), 2)
    held = {"state": "scoring", "pod": "p0", "round": 2, "mtime": NOW}
    board |= {"phase": "finals", "stopped": NOW - 5, "stop_reason": "minutes"}
    finals = seen(
        stop, *pods, slots={"a": {**held, "order": final.id}}, config=config,
        board={**board, "rescores": {"p0": final}},
    )  # fmt: skip
    assert seconds(finals) == pytest.approx(12 - 5 + 2 * 2)
    score = replace(kept["1"], returns=(1.0, 1.0))
    last = Rescore("snapshot", 3, "p0", 1, "ppo", {}, Checkpoint("c3", 9), 3)
    ending = seen(
        stop, *pods, slots={"a": {**held, "order": last.id}}, config=config,
        board={**board, "rescores": {"x": last}, "snapshots": {**kept, "1": score}},
    )  # fmt: skip
    # one of 2 s is done and half of another: a pace of 5 / 3; the other half takes as long as 1 s
    assert seconds(ending) == pytest.approx(5 / 3)


def test_a_slot_at_its_time_limit_is_away_for_as_long_as_its_requeues_took() -> None:
    only = pod("p1", 100, 1)
    config = {"cluster": ClusterConfig(launcher="slurm", minutes=10)}
    job = JobView("7_0", "7_0", "slots", "running", "t", left=150.0)
    run = seen(
        StopConfig(rounds=4), only, slots={"7_0": training(only)}, config=config,
        view=ClusterView((job,)),
        restarts={"7_0": RestartRecord(restarts=2, began=NOW - 500, seconds=420.0)},
    )  # fmt: skip
    assert seconds(run) == pytest.approx(300 + 40 + AWAY)
    assert seconds(replace(run, restarts={})) > 300 + AWAY, (
        "one that was not measured is allowed for"
    )
    far = replace(job, left=10_000.0)
    assert seconds(replace(run, view=ClusterView((far,)))) == pytest.approx(300 + AWAY)


def test_slots_in_the_queue_may_help_and_are_not_relied_upon() -> None:
    pods = [pod(f"p{n}", 100, 4) for n in range(2)]
    config = {"cluster": ClusterConfig(launcher="slurm")}
    running = JobView("7_0", "7_0", "slots", "running", "t")
    pending = JobView("7_1", "7_1", "slots", "pending", "t")
    run = seen(
        StopConfig(rounds=5), *pods, slots={"7_0": training(pods[0])}, config=config,
        view=ClusterView((running,)),
    )  # fmt: skip
    alone, hoped = forecast(run), forecast(replace(run, view=ClusterView((running, pending))))
    assert alone is not None
    assert hoped is not None
    assert hoped.seconds == alone.seconds == pytest.approx(200 + AWAY)
    assert hoped.low < alone.low
    starts = running, replace(pending, starts=NOW + 35)
    assert seconds(replace(run, view=ClusterView(starts))) == pytest.approx(150 + AWAY)


def test_rounds_that_are_scored_beside_training_take_the_longer_of_the_two() -> None:
    only = pod("p1", 50, 1, panel=20)
    config = {"resources": ResourcesConfig(cpus_per_pod=2)}
    stop = StopConfig(rounds=4, finalists=1, confirm_episodes=32)
    assert seconds(seen(stop, only, config=config)) == pytest.approx(3 * 30 + 20 + NOTICE + 20)


def test_the_first_limit_counts() -> None:
    only = pod("p1", 10, 2)
    every = StopConfig(minutes=60, env_steps=90_000, rounds=8)
    told = forecast(seen(every, only, board={"env_steps": 2000}))
    assert told is not None
    assert told.limit == "rounds"
    assert told.seconds == pytest.approx(60 + NOTICE)
    assert forecast(seen(StopConfig(target=1.0), only)) is None


def test_nothing_is_told_before_anything_is_measured_or_while_nobody_works() -> None:
    assert forecast(seen(StopConfig(rounds=8), pod("p1", 0, 0))) is None
    run = seen(StopConfig(rounds=8), pod("p1", 10, 2))
    assert forecast(replace(run, slots={})) is None
    assert forecast(replace(run, drain=Drain())) is None


def test_a_run_of_any_length_is_played_in_little_time() -> None:
    pods = [pod(f"p{n}", 10, 2) for n in range(100)]
    told = seconds(seen(StopConfig(rounds=10_002), *pods))
    assert told == pytest.approx(10 * 10_000, rel=0.01)
    assert not math.isinf(told)


def test_finals_are_forecast_where_no_round_has_told_how_long_a_score_takes() -> None:
    """A program that tells no progress: it ended the launcher by a division by zero."""
    silent = pod("p0", 10.0, 2, panel=0.0)
    member = Member("p0", 2, "ppo", {}, Checkpoint("c", 2))
    order = Rescore("final", 1, "p0", 1, "ppo", {}, Checkpoint("c", 2), 2, episodes=4)
    finals = Finals("select", finalists=(member,), batches=(0, 1), played={"p0": 1},
                    returns={"p0": (1.0, 2.0)})  # fmt: skip
    board = {"phase": "finals", "stop_reason": "rounds", "stopped": NOW - 4.0, "finals": finals,
             "rescores": {"p0": order}}  # fmt: skip
    run = seen(StopConfig(rounds=2), silent, slots={"a": training(silent)}, board=board)
    told = forecast(run)
    assert told is not None and math.isfinite(told.seconds)

"""The simulator of ``benchmarks/simulate.py``: small clusters whose numbers are worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation.bounds import physical
from simulation.coordinator import Wanted
from simulation.grid import Grid
from simulation.loop import Loop
from simulation.population import Work
from simulation.run import Outcome, Simulation, Way, run
from simulation.scheduler import Mode, Scheduler, Site
from simulation.trace import HOUR, Job, Outage, Trace

SURE = Site(errors=0.0, latency=0.0)
"""A controller that always answers at once."""
SLOT = Work(startup=10.0, round=100.0, spread=0.0, checkpoint=30.0, save=5.0)
ONE = Wanted(least=1, most=1, limit=10_000.0, interval=20.0)


def trace(nodes: int, gpus: int, end: float, *jobs: Job, outages: tuple[Outage, ...] = ()) -> Trace:
    return Trace(nodes, gpus, 0.0, end, jobs, outages)


def starts(scheduler: Scheduler) -> dict[float, float]:
    """When each job of another user that runs now has begun, by its submission."""
    return {other.job.submit: other.began for other in scheduler.running}


def test_a_short_job_overtakes_one_that_waits_and_a_long_one_does_not() -> None:
    # Two nodes. The first is busy until 100, so the pair that wants both starts then. What was
    # submitted behind it at 21 and 22 has the second node from the backfill at 30: until 90 by its
    # limit, which is before 100; until 110, which is not. That one starts when the pair ends.
    busy, pair = Job(0.0, 1, 2, 100.0, 100.0), Job(10.0, 2, 2, 50.0, 60.0)
    short, long = Job(22.0, 1, 2, 40.0, 60.0), Job(21.0, 1, 2, 40.0, 80.0)
    loop = Loop()
    scheduler = Scheduler(loop, trace(2, 2, 200.0, busy, pair, long, short), SURE)
    scheduler.load()
    loop.run(29.0)
    assert starts(scheduler) == {0.0: 0.0}
    loop.run(30.0)
    assert starts(scheduler) == {0.0: 0.0, 22.0: 30.0}
    loop.run(100.0)
    assert starts(scheduler) == {10.0: 100.0}
    loop.run(150.0)
    assert starts(scheduler) == {21.0: 150.0}


def test_a_job_that_overtakes_may_last_where_the_one_that_waits_needs_nothing() -> None:
    # The head wants both nodes' first GPU, say: one GPU of each of two nodes. Each has two; the
    # first node's are busy until 100. On the second a GPU is left over whenever the head starts.
    busy, head = Job(0.0, 1, 2, 100.0, 100.0), Job(1.0, 2, 1, 50.0, 50.0)
    fits, not_also = Job(2.0, 1, 1, 500.0, 500.0), Job(3.0, 1, 1, 500.0, 500.0)
    loop = Loop()
    scheduler = Scheduler(loop, trace(2, 2, 200.0, busy, head, fits, not_also), SURE)
    scheduler.load()
    loop.run(99.0)
    assert starts(scheduler) == {0.0: 0.0, 2.0: 30.0}
    loop.run(100.0)
    assert starts(scheduler) == {1.0: 100.0, 2.0: 30.0, 3.0: 100.0}


@pytest.mark.parametrize(("limit", "second"), [(960.0, 30.0), (961.0, 1040.0)])
def test_a_slot_starts_where_its_time_limit_ends_before_the_gpu_is_needed(
    limit: float, second: float
) -> None:
    # One of two GPUs is busy until 990, and then somebody wants both for 50 seconds.
    jobs = Job(-40.0, 1, 1, 1030.0, 1030.0), Job(-35.0, 1, 2, 50.0, 50.0)
    on = Trace(1, 2, -50.0, 2000.0, jobs)
    simulation = Simulation(on, SURE, SLOT, replace(ONE, limit=limit), "array")
    simulation.loop.run(second - 0.1)
    assert simulation.population.seats == {}
    simulation.loop.run(second)
    assert list(simulation.population.seats) == ["1_0"]


def test_slots_leave_free_what_the_first_of_the_queue_will_need() -> None:
    # Two of four GPUs are busy until 990, and then somebody wants three: one is left for a slot.
    jobs = Job(-40.0, 1, 2, 1030.0, 1030.0), Job(-35.0, 1, 3, 50.0, 50.0)
    wanted = replace(ONE, most=2)
    simulation = Simulation(Trace(1, 4, -50.0, 2000.0, jobs), SURE, SLOT, wanted, "array")
    simulation.loop.run(980.0)
    assert list(simulation.population.seats) == ["1_0"]
    simulation.loop.run(1040.0)
    assert list(simulation.population.seats) == ["1_0", "1_1"]


def test_a_job_goes_on_after_its_node_has_failed() -> None:
    loop = Loop()
    down = trace(1, 1, 200.0, Job(0.0, 1, 1, 100.0, 100.0), outages=(Outage(0, 40.0, 60.0),))
    scheduler = Scheduler(loop, down, SURE)
    scheduler.load()
    loop.run(119.0)
    assert starts(scheduler) == {0.0: 60.0}
    loop.run(120.0)
    assert starts(scheduler) == {} and scheduler.queue == []


def test_what_others_leave_is_counted_by_hand() -> None:
    # Four GPUs; two are busy from 100 to 300, and the node is away from 500 to 600.
    job, outage = Job(100.0, 1, 2, 200.0, 200.0), Outage(0, 500.0, 600.0)
    left = physical(trace(1, 4, 1000.0, job, outages=(outage,)), SURE, most=3)
    assert left.all == 4 * 100 + 2 * 200 + 4 * 200 + 4 * 400
    assert left.seconds == 3 * 100 + 2 * 200 + 3 * 200 + 3 * 400


def test_nothing_is_counted_before_second_0() -> None:
    before = Trace(1, 2, -100.0, 100.0, (Job(-50.0, 1, 1, 100.0, 100.0),))
    assert physical(before, SURE, most=2).all == 1 * 50 + 2 * 50
    outcome = run(before, SURE, SLOT, ONE, "array")
    assert (outcome.ledger.starting, outcome.ledger.trained, outcome.allocated) == (10, 90, 100)


PREEMPTED = trace(1, 1, 500.0, Job(250.0, 1, 1, 50.0, 50.0))
"""One GPU, which another user wants from 250 on, for 50 seconds."""


def one(way: Way, mode: Mode = "requeue", on: Trace = PREEMPTED) -> Outcome:
    return run(on, replace(SURE, mode=mode), SLOT, ONE, way)


def test_a_preempted_slot_comes_back_after_the_schedulers_pause() -> None:
    # It trains from 10, reports at 110 and 210, saves from 250 to 255; the job runs to 305. The
    # slot may start at 255 + 121 = 376, trains from 386, and reports at 386 + 100 - 40 = 446.
    outcome = one("array")
    assert outcome.ledger.trained == 240 + 114
    assert (outcome.ledger.starting, outcome.ledger.saving, outcome.ledger.lost) == (20, 5, 0)
    assert outcome.allocated == 255 + 124
    assert outcome.delays == (10.0, 386.0 - 305.0)
    assert outcome.reports == 3
    # All that others leave: from 250 on they have the GPU, also while the slot saves.
    assert outcome.bound.seconds == 500 - 55
    assert outcome.used == 354 / 445


def test_the_coordinator_has_it_start_at_once() -> None:
    # Ticks while nothing happens come later and later: 20, 40, then 30, 45, ... but the first one
    # after 255 finds the slot requeued, and sets its StartTime to now: it starts with the GPU.
    outcome = one("hpcpod")
    assert outcome.delays == (10.0, 10.0)
    assert outcome.calls["scontrol"] == 1
    assert outcome.reports == 4


def test_the_coordinator_is_awake_when_slots_reach_their_time_limit() -> None:
    # Nothing has happened for half an hour, so it looks each 100 s; with 300 s left, each 20 again.
    # Told at 1,910, gone at 1,915, the slot is let back at a tick within 20 s, and takes 10.
    outcome = run(trace(1, 1, 1990.0), SURE, SLOT, replace(ONE, limit=2000.0))
    assert outcome.ticks < 50
    assert len(outcome.delays) == 2 and outcome.delays[1] <= 20.0 + 10.0


def test_where_preemption_cancels_only_the_coordinator_asks_again() -> None:
    assert one("array", "cancel").ledger.trained == 240
    again = one("hpcpod", "cancel")
    assert again.ledger.trained > 354 and again.calls["sbatch"] == 2
    # The new slot has another name: it takes the order when the plan has given it out again.
    assert again.ledger.lost == 0 and again.reports == 4


def test_an_order_of_a_slot_that_is_gone_is_given_out_as_its_next_attempt() -> None:
    site = replace(SURE, mode="cancel")
    simulation = Simulation(PREEMPTED, site, SLOT, ONE, "hpcpod")
    simulation.loop.run(250.0)
    assert {order: owner.slot for order, owner in simulation.population.claims.items()} == {
        "p00001-00003-1": "1_0"
    }
    simulation.loop.run(350.0)
    assert {order: owner.slot for order, owner in simulation.population.claims.items()} == {
        "p00001-00003-2": "2_0"
    }


def test_a_slot_that_is_to_leave_after_its_round_does() -> None:
    simulation = Simulation(trace(1, 1, 400.0), SURE, SLOT, ONE, "array")
    simulation.loop.run(50.0)
    simulation.population.retire(["1_0"])
    simulation.loop.run(400.0)
    outcome = simulation.outcome()
    assert (outcome.reports, outcome.allocated, outcome.ledger.trained) == (1, 110, 100)
    assert simulation.scheduler.elements.live == {}


def test_a_slot_that_does_not_listen_loses_what_it_did_since_its_checkpoint() -> None:
    # It dies a second after the signal: 41 s into its third round, of which 30 are saved. It is
    # back at 251 + 121 = 372, and trains from 382.
    outcome = one("plain array")
    assert outcome.ledger.lost == 11
    assert outcome.ledger.trained == 230 + 118


def test_a_slot_whose_checkpoint_takes_longer_than_the_grace_time_loses_it() -> None:
    # Signalled at 250, 40 s into its third round, it is killed at 253: 30 of them are saved. It is
    # back at 253 + 121 = 374.
    outcome = run(PREEMPTED, replace(SURE, grace=3.0), SLOT, ONE, "array")
    assert (outcome.ledger.lost, outcome.ledger.saving) == (10, 3)
    assert outcome.ledger.trained == 230 + (500 - 384)


def test_a_node_that_fails_takes_the_work_since_the_last_checkpoint() -> None:
    # Down from 145 to 200: 35 s into the second round. The slot is back at 145 + 121 = 266.
    down = trace(1, 1, 400.0, outages=(Outage(0, 145.0, 200.0),))
    outcome = one("array", on=down)
    assert outcome.ledger.lost == 5
    assert outcome.ledger.trained == 130 + (400 - 276)
    assert outcome.delays == (10.0, 276.0 - 200.0)


def test_a_drained_node_keeps_what_runs_there() -> None:
    drained = trace(1, 1, 400.0, outages=(Outage(0, 145.0, 200.0, drain=True),))
    outcome = one("array", on=drained)
    assert outcome.ledger.trained == 390 and outcome.bound.seconds == 400


@pytest.mark.parametrize(("way", "trained"), [("array", 3 * 200.0), ("plain array", 290.0)])
def test_a_slot_at_its_time_limit_asks_to_come_back_or_is_gone(way: Way, trained: float) -> None:
    # Of 300 s it has 10 to start. Told 90 s before the end, it saves until 215 and is back 121 s
    # later: it trains from 10 to 210, 346 to 546, 682 to 882, and would be back at 1,008.
    # One that does not listen is killed 90 s into its third round, with its third checkpoint.
    outcome = run(trace(1, 1, 1000.0), SURE, SLOT, replace(ONE, limit=300.0), way)
    assert outcome.ledger.trained == trained
    assert outcome.calls.get("by slots", 0) == (6 if way == "array" else 0)


def test_others_take_gpus_without_slots_first() -> None:
    grid: Grid[str] = Grid(2, 2)
    grid.seat((0, 0), "slot")
    assert grid.find(1, 1, grid.for_others) == [0]  # fullest first: its other GPU
    assert grid.choose(0, 1) == [(0, 1)]
    assert grid.find(1, 2, grid.for_others) == [1]  # where nobody must leave
    assert grid.find(2, 2, grid.for_others) == [1, 0]
    grid.close(1)
    assert grid.find(2, 2, grid.for_others) is None


def test_by_a_schedule_slots_leave_in_the_morning_and_come_back_in_the_evening() -> None:
    wanted = Wanted(least=1, most=4, limit=48 * HOUR, by_day=2)
    simulation = Simulation(trace(1, 4, 24 * HOUR), SURE, Work(), wanted, "hpcpod")
    running = {}
    for hour in (7.9, 8.6, 17.9, 18.2):
        simulation.loop.run(hour * HOUR)
        running[hour] = len(simulation.population.seats)
    assert running == {7.9: 4, 8.6: 2, 17.9: 2, 18.2: 4}

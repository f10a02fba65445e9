"""``benchmarks/simulate.py``: its trace, its promises on any cluster, its tables and options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import timing
from simulation import trace as simulation_trace
from simulation.bounds import Left
from simulation.coordinator import Wanted
from simulation.elements import Elements
from simulation.grid import Grid, Place
from simulation.loop import Loop
from simulation.population import Ledger, Population, Work
from simulation.run import WAYS, Outcome, Simulation, Way, run
from simulation.scheduler import MODES, Mode, Scheduler, Site
from simulation.tables import Row, render
from simulation.trace import DAY, HOUR, Job, Outage, Trace, Workload, draw, rate

from hpcpod.errors import LaunchError
from hpcpod.orchestrator.plan import Merge, Retire, Submit, plan

SMALL = Workload(nodes=20, gpus=4, days=7.0, load=0.8, warmup=1.0)


def test_a_trace_offers_the_load_that_was_asked_for_and_fits_the_cluster() -> None:
    trace = draw(SMALL, seed=1)
    offered = sum(job.gpu_seconds for job in trace.jobs)
    # Eight days from a Sunday on: weekdays submit 1 and weekends 0.75, of a mean of 6.5 / 7.
    share = (5 + 3 * 0.75) / 8 / ((5 + 2 * 0.75) / 7)
    there = 20 * 4 * 8 * DAY * share
    largest = max(job.gpu_seconds for job in trace.jobs)
    assert 0.8 * there <= offered <= 0.8 * there + 50 * largest
    assert all(0 < job.runtime <= job.limit for job in trace.jobs)
    assert all(job.gpus <= 4 and job.nodes * job.gpus <= 20 for job in trace.jobs)
    assert [job.submit for job in trace.jobs] == sorted(job.submit for job in trace.jobs)
    assert draw(SMALL, seed=1) == trace != draw(SMALL, seed=2)


def test_people_submit_by_day_and_on_weekdays() -> None:
    trace = draw(Workload(nodes=100, gpus=8, days=14.0, warmup=0.0), seed=3)
    by_day = [sum(1 for job in trace.jobs if job.submit // DAY == day) for day in range(14)]
    weekend = sum(by_day[day] for day in (5, 6, 12, 13)) / 4
    assert weekend < 0.9 * sum(by_day) / 14
    at_night = sum(1 for job in trace.jobs if job.submit % DAY < 6 * HOUR)
    assert at_night < 0.15 * len(trace.jobs)
    assert rate(5 * DAY) == 0.75 * rate(0.0) == 0.75 * rate(-3 * DAY)


def test_a_node_is_not_lost_twice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation_trace, "REPAIR", (100 * DAY, 1.0))
    outages = draw(Workload(nodes=5, days=1000.0, load=0.001), seed=1).outages
    assert any(each.drain for each in outages) and not all(each.drain for each in outages)
    until = dict.fromkeys(range(5), -float("inf"))
    for outage in outages:
        assert until[outage.node] < outage.start < outage.end
        until[outage.node] = outage.end


@st.composite
def clusters(drawn: st.DrawFn) -> Trace:
    """A handful of GPUs that many want at the same times."""
    nodes, gpus = drawn(st.integers(1, 4)), drawn(st.integers(1, 4))
    seconds = st.integers(0, 40).map(lambda n: 50.0 * n)
    jobs = []
    for _ in range(drawn(st.integers(0, 12))):
        limit = drawn(st.integers(1, 20)) * 50.0
        runtime = min(limit, drawn(st.integers(1, 20)) * 50.0)
        wide = drawn(st.booleans())
        of_each = gpus if wide else drawn(st.integers(1, gpus))
        jobs.append(
            Job(
                drawn(seconds), drawn(st.integers(1, nodes)) if wide else 1, of_each, runtime, limit
            )
        )
    outages = []
    for node in range(nodes):
        if drawn(st.booleans()):
            start = drawn(seconds)
            outages.append(Outage(node, start, start + drawn(seconds) + 1.0, drawn(st.booleans())))
    jobs.sort(key=lambda job: job.submit)
    return Trace(nodes, gpus, 0.0, 2500.0, tuple(jobs), tuple(outages))


@contextmanager
def each_gpu_has_one_owner() -> Iterator[None]:
    """Whoever is given a GPU gets one that nobody has, on a node where something may start."""
    seat, take = Grid.seat, Grid.take

    def checked_seat(grid: Grid[object], place: Place, slot: object) -> None:
        node, gpu = place
        assert grid.open[node] and grid.ends[node, gpu] == 0 and grid.holders[node][gpu] is None
        seat(grid, place, slot)

    def checked_take(grid: Grid[object], places: list[Place], until: float) -> None:
        assert len(set(places)) == len(places)
        for node, gpu in places:
            assert grid.open[node] and grid.ends[node, gpu] == 0 and grid.holders[node][gpu] is None
        take(grid, places, until)
        assert grid.free.min() >= 0 and (grid.free - grid.slots).min() >= 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grid, "seat", checked_seat)
        patch.setattr(Grid, "take", checked_take)
        yield


@settings(max_examples=60, deadline=None)
@given(
    clusters(), st.sampled_from(WAYS), st.sampled_from(MODES), st.integers(1, 20),
    st.sampled_from([0.0, 3.0]), st.sampled_from([0.0, 0.3]),
)  # fmt: skip
def test_gpu_minutes_add_up_and_no_gpu_has_two_owners(
    trace: Trace, way: Way, mode: Mode, slots: int, grace: float, errors: float
) -> None:
    site = Site(mode=mode, grace=grace, errors=errors)
    work = Work(startup=10.0, round=200.0, checkpoint=30.0, save=5.0)
    wanted = Wanted(least=1, most=slots, limit=600.0)
    with each_gpu_has_one_owner():
        outcome = run(trace, site, work, wanted, way)
    ledger = outcome.ledger
    assert ledger.trained + ledger.wasted == pytest.approx(outcome.allocated)
    assert ledger.trained <= outcome.bound.seconds + 1e-6
    assert outcome.bound.seconds <= outcome.bound.all <= trace.nodes * trace.gpus * 2500.0
    assert min(ledger.starting, ledger.lost, ledger.saving, ledger.waiting) >= 0
    assert all(delay >= 10.0 for delay in outcome.delays)


def test_the_same_run_twice_is_the_same() -> None:
    trace = draw(Workload(nodes=20, gpus=4, days=0.5, warmup=0.5), seed=1)
    first, again = (run(trace, Site(), Work(), Wanted(least=1, most=40)) for _ in range(2))
    assert first.ledger == again.ledger and first.calls == again.calls


def elements(site: Site) -> tuple[Elements, Scheduler]:
    loop = Loop()
    scheduler = Scheduler(loop, Trace(1, 4, 0.0, HOUR), site, Population(loop, Work(pods=8)))
    return scheduler.elements, scheduler


def states(found: Elements) -> list[tuple[str, str, str]]:
    return [(job.slot, job.state, job.reason) for job in found.squeue().jobs]


def test_a_throttle_stops_nothing_and_holds_back_what_waits() -> None:
    found, scheduler = elements(Site(errors=0.0))
    assert found.sbatch("token", 6, HOUR, throttle=2) == "1"
    held = [(f"1_{n}", "pending", "JobArrayTaskLimit") for n in range(2, 6)]
    assert states(found) == [("1_0", "running", ""), ("1_1", "running", ""), *held]
    assert found.squeue().throttles == {"1": 2}
    found.throttle("1", 3)
    assert [state for _, state, _ in states(found)].count("running") == 3
    found.throttle("1", None)
    assert states(found)[4:] == [("1_4", "pending", "Resources"), ("1_5", "pending", "Resources")]
    found.throttle("1", 1)
    assert [state for _, state, _ in states(found)].count("running") == 4
    found.scancel(["1_0", "1_1", "1_2"])
    scheduler.loop.run(60.0)
    assert states(found) == [
        ("1_3", "running", ""),
        ("1_4", "pending", "JobArrayTaskLimit"),
        ("1_5", "pending", "JobArrayTaskLimit"),
    ]
    found.throttle("1", 2)
    assert scheduler.grid.idle.sum() == 2
    found.scancel(["1"])
    scheduler.loop.run(120.0)
    assert states(found) == [] and scheduler.grid.idle.sum() == 4


def test_what_the_site_does_not_allow_is_refused() -> None:
    found, _ = elements(Site(errors=0.0, max_array_size=5, max_jobs=7))
    with pytest.raises(LaunchError, match="Invalid job array"):
        found.sbatch("token", 6, HOUR)
    found.sbatch("token", 5, HOUR)
    with pytest.raises(LaunchError, match="unable to accept job"):
        found.sbatch("token", 3, HOUR)
    assert found.calls["sbatch"] == 3


def test_a_controller_that_is_busy_neither_stops_nor_doubles_a_run() -> None:
    # Every ten minutes somebody wants the GPU for one. Half of all commands get no answer, and half
    # of the submissions that get none were made all the same.
    jobs = tuple(Job(600.0 * n, 1, 1, 60.0, 60.0) for n in range(1, 144))
    wanted = Wanted(least=1, most=1, limit=DAY)
    trace, site = Trace(1, 1, 0.0, DAY, jobs), Site(mode="cancel", errors=0.5)
    simulation = Simulation(trace, site, Work(), wanted, "hpcpod")
    for minute in range(24 * 60):
        simulation.loop.run(60.0 * minute)
        assert len(simulation.scheduler.elements.live) <= 1
    outcome = simulation.outcome()
    assert not outcome.paused
    assert outcome.calls["sbatch"] > 50


def test_situations_for_a_plan_are_what_they_are_called() -> None:
    actions = {name: plan(seen, lambda: "0" * 16) for name, seen in timing.situations(90)}
    assert actions["all at work"] == [Merge()]
    lost = next(each for each in actions["a third gone"] if isinstance(each, Merge))
    asked = [each for each in actions["a third gone"] if isinstance(each, Submit)]
    assert len(lost.lost) == 30 and [each.intent.count for each in asked] == [30]
    retired = [each for each in actions["half to go"] if isinstance(each, Retire)]
    assert sum(len(each.slots) for each in retired) == 45


def test_the_tables_by_hand() -> None:
    scheduler = elements(Site())[1]
    left = Left(scheduler, most=2)
    left.seconds, left.all = 100 * HOUR, 200 * HOUR
    ledger = Ledger(trained=80 * HOUR, starting=60.0, lost=120.0, saving=30.0, waiting=30.0)
    outcome = Outcome(left, ledger, 80 * HOUR + 240.0, 7, (10.0, 20.0, 30.0), {"squeue": 120}, 2.0)
    paused = Outcome(left, Ledger(), 0.0, 0, (), {}, 2.0, paused="it was refused")
    told = render([Row(1, "cancel", "hpcpod", outcome), Row(2, "cancel", "array", paused)])
    assert "| CANCEL | hpcpod | 200 | 100 | 80 | 80.0 % | 80.1 % | 7 | 20 s | 29 s |" in told
    assert "| CANCEL | hpcpod | 4 | 0.08 % | 1 | 2 | 0 | 0 |" in told
    assert "| CANCEL | hpcpod | 60.0 | 0.0 | 0.0 | 0.0 | 0.0 | 0 |" in told
    assert "| CANCEL | array | 200 | 100 | 0 | 0.0 % | 0.0 % | 0 | none | none |" in told
    assert told.endswith("cancel, array, seed 2: paused: it was refused")
    both = render([Row(1, "cancel", "array", outcome), Row(2, "cancel", "array", paused)])
    assert "| 40 [0, 80] | 40.0 [0.0, 80.0] % | 40.0 [0.0, 80.1] % |" in both


def test_a_small_cluster_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--nodes", "10", "--gpus", "4", "--days", "0.25", "--slots", "20", "--seeds", "1", "2"]
    assert simulate.main([*words, "--round", "10", "--waiting", "4", "--mode", "cancel"]) == 0
    told = capsys.readouterr().out
    assert told.count("| CANCEL | hpcpod |") == 3 and "REQUEUE" not in told
    assert "sinfo an hour" in told
    assert simulate.main(["--plan", "8"]) == 0
    assert "8 slots, half to go: 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--days", "0.001"], "0.001 are shorter than a round (--round) of a pod"),
        (["--nodes", "0"], "want at least 1, got 0"),
        (["--load", "-1"], "want a number above 0, got -1"),
        (["--mode", "suspend"], "invalid choice: 'suspend'"),
    ],
)
def test_what_can_not_be_simulated_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate.parse(words)
    assert said in capsys.readouterr().err

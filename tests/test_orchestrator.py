"""A plan is pure; acting on one counts once, whoever else acts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator import tick
from hpcpod.orchestrator.plan import (
    Action,
    Cancel,
    Merge,
    Observed,
    Pause,
    Record,
    Submit,
    plan,
)
from hpcpod.orchestrator.tick import Orchestrator, needed_blobs
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.round import Watch
from hpcpod.records import Birth, Board, Intent, Owner, PodState
from hpcpod.tournament.leaderboard import orders
from tests.pod.rounds import first_birth, onward, train
from tests.slots import ROOT
from tests.small_runs import AGENTS, create


def board(pods: int = 4, **fields: Any) -> Board:
    """A running board with an open birth for each pod."""
    births = {f"p{i}": Birth(f"p{i}", 1, 1, "ppo", {}, i) for i in range(pods)}
    states = {
        name: PodState(name, "ppo", "ppo", {}, birth.seed, "fresh", birth=birth)
        for name, birth in births.items()
    }
    return replace(Board(0.0, pods=states), **fields)


def job(number: int, index: int = 0, state: str = "running", submission: str = "") -> JobView:
    """A slot of intent ``number``; by default of the job that is recorded for it."""
    submission = submission or f"job{number}"
    return JobView(
        f"{submission}_{index}", f"{submission}_{index}", "slots",
        "pending" if state == "pending" else "running", f"t{number}", "", submission,
    )  # fmt: skip


def intent(number: int, count: int = 1, reports: int = 0) -> Intent:
    return Intent(number, f"t{number}", "slots", count, reports)


def observed(
    jobs: Sequence[JobView] = (),
    intents: Sequence[Intent] = (),
    submitted: Sequence[int] = (),
    on: Board | None = None,
    **fields: Any,
) -> Observed:
    whole = Observed(
        board=on or board(),
        cluster=ClusterView(tuple(jobs)),
        places=3,
        intents=tuple(intents),
        submitted={number: f"job{number}" for number in submitted},
    )
    return replace(whole, **fields)


def planned(what: Observed) -> list[Action]:
    return plan(what, lambda: "new")


def test_missing_slots_are_submitted_as_one_intent() -> None:
    new = Intent(0, "new", "slots", 3, 0)
    assert planned(observed()) == [Submit(new), Merge()]
    one_left = observed([job(0)], [intent(0, 3)], [0], on=board(reports=7))
    assert planned(one_left) == [Submit(Intent(1, "new", "slots", 2, 7)), Merge()]


def test_no_more_slots_are_submitted_than_there_are_orders() -> None:
    assert planned(observed(on=board(2)))[0] == Submit(Intent(0, "new", "slots", 2, 0))
    assert planned(observed(on=board(0))) == [Merge()]


def test_with_every_place_taken_nothing_is_submitted() -> None:
    jobs = [job(0, i, state) for i, state in enumerate(("running", "pending", "running"))]
    assert planned(observed(jobs, [intent(0, 3)], [0])) == [Merge()]


def test_an_unrecorded_intent_that_is_in_the_queue_is_recorded() -> None:
    jobs = [job(0, i, submission="4711") for i in range(3)]
    assert planned(observed(jobs, [intent(0, 3)])) == [Record(0, "4711"), Merge()]


def test_an_unrecorded_intent_that_is_not_in_the_queue_is_submitted_itself() -> None:
    assert planned(observed([], [intent(0, 3)])) == [Submit(intent(0, 3)), Merge()]
    coordinator = Intent(0, "t0", "coordinator")
    assert planned(observed([], [coordinator], on=board(0))) == [Merge()]


def test_the_slots_of_a_duplicate_submission_are_cancelled_and_do_not_count() -> None:
    winners = [job(0, i) for i in range(3)]
    doubles = [job(0, i, submission="late") for i in range(3)]
    (cancel, merge) = planned(observed([*winners, *doubles], [intent(0, 3)], [0]))
    assert isinstance(cancel, Cancel) and cancel.jobs == tuple(double.job for double in doubles)
    assert merge == Merge()


def test_orders_whose_slots_are_gone_are_lost() -> None:
    claims = {"p0-00001-1": Owner("job0_0", "job0"), "p1-00001-1": Owner("job0_1", "job0")}
    jobs = [job(0, 1), job(0, 2), job(0, 3)]
    assert planned(observed(jobs, [intent(0, 3)], [0], claims=claims)) == [Merge(("p0-00001-1",))]


def test_a_finished_run_ends_its_slots_and_submits_nothing() -> None:
    ended = observed([job(0)], [intent(0), intent(1)], [0], on=board(phase="finished"))
    (merge, cancel) = planned(ended)
    assert merge == Merge()
    assert isinstance(cancel, Cancel) and cancel.jobs == ("job0_0",)


def test_a_draining_run_submits_nothing_and_cancels_only_what_waits() -> None:
    jobs = [job(0, 0), job(0, 1, "pending")]
    (merge, cancel) = planned(observed(jobs, [intent(0, 3), intent(1)], [0], draining=True))
    assert merge == Merge()
    assert isinstance(cancel, Cancel) and cancel.jobs == ("job0_1",)


def test_submitting_in_vain_fails_the_run() -> None:
    intents = [intent(number, 3, reports=5) for number in range(4)]
    in_vain = observed([], intents, range(4), on=board(reports=5), max_restarts=3)
    given_up = Merge(failure="4 submissions in a row brought no report; see `hpcpod logs`")
    assert planned(in_vain) == [given_up]
    unrecorded = replace(in_vain, intents=(*intents, intent(4, 1, reports=5)))
    assert planned(unrecorded) == [given_up]  # nor is one of its intents made up for
    assert planned(replace(in_vain, board=board(reports=6)))[-1] == Merge()
    at_work = replace(in_vain, cluster=ClusterView((job(3, 0),)))
    assert planned(at_work) == [Merge()]  # it may still report, and is not thrown away
    refused = replace(in_vain, refused="another simulator")  # then it waits for a person
    assert planned(refused) == [Merge(), Pause("another simulator")]
    assert planned(replace(refused, cluster=ClusterView((job(3, 0),)))) == [Merge()]
    resumed = replace(in_vain, resumed=3)  # what a person has ended before did not fail
    assert planned(resumed)[0] == Submit(Intent(4, "new", "slots", 3, 5))
    still_there = replace(in_vain, cluster=ClusterView((job(3, 0), job(3, 1), job(3, 2))))
    assert planned(still_there) == [Merge()]


@st.composite
def situations(draw: st.DrawFn) -> Observed:
    intents = [
        intent(number, draw(st.integers(1, 4)), draw(st.integers(0, 2)))
        for number in range(draw(st.integers(0, 4)))
    ]
    submitted = [i.number for i in intents if draw(st.booleans())]
    jobs = [
        job(i.number, index, draw(st.sampled_from(["pending", "running"])), submission)
        for i in intents
        for submission in draw(st.lists(st.sampled_from([f"job{i.number}", "late"]), unique=True))
        for index in range(draw(st.integers(0, i.count)))
    ]
    return observed(
        jobs, intents, submitted, board(draw(st.integers(0, 6)), reports=2),
        places=draw(st.integers(1, 5)), draining=draw(st.booleans()),
        max_restarts=draw(st.integers(0, 3)),
    )  # fmt: skip


@given(situations())
def test_a_plan_never_asks_for_more_slots_than_there_are_places_and_orders(what: Observed) -> None:
    actions = planned(what)
    submits = [action.intent for action in actions if isinstance(action, Submit)]
    cancelled = {name for action in actions if isinstance(action, Cancel) for name in action.jobs}
    new = [i for i in submits if i.token == "new"]
    stay = [view for view in what.cluster.jobs if view.job not in cancelled]
    assert len(new) <= 1
    if submits:
        wanted = min(what.places, len(orders(what.board)))
        assert len(stay) + sum(i.count for i in submits) <= wanted
    given_up = any(isinstance(action, Merge) and action.failure for action in actions)
    assert not (given_up and submits)
    # Nothing that is in the queue or on record is submitted again.
    seen = {view.token for view in what.cluster.jobs}
    assert all(i.token not in seen and i.number not in what.submitted for i in submits)
    assert isinstance(actions[-1], (Merge, Cancel))
    assert not (what.draining and submits)


@given(situations())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(what: Observed) -> None:
    after = what
    for _ in range(3):
        after = carried_out(after, planned(after))
    assert [action for action in planned(after) if not isinstance(action, Merge)] == []


def carried_out(what: Observed, actions: Sequence[Action]) -> Observed:
    """The world after a plan, by a scheduler that does as it is told at once."""
    jobs, intents, submitted = list(what.cluster.jobs), list(what.intents), dict(what.submitted)
    for action in actions:
        if isinstance(action, Cancel):
            jobs = [view for view in jobs if view.job not in action.jobs]
        elif isinstance(action, Record):
            submitted[action.number] = action.job
        elif isinstance(action, Submit):
            made = replace(action.intent, token=f"t{action.intent.number}")
            intents = [*[i for i in intents if i.number != made.number], made]
            submitted[made.number] = f"job{made.number}"
            jobs += [job(made.number, index) for index in range(made.count)]
        elif isinstance(action, Merge) and action.failure:
            what = replace(what, board=replace(what.board, phase="finished"))
    return replace(
        what, cluster=ClusterView(tuple(jobs)), intents=tuple(intents), submitted=submitted
    )


STARTED: list[subprocess.Popen[bytes]] = []


class SleepingLauncher:
    """A scheduler whose jobs are processes that sleep, found again by what they are called.

    Like Slurm's, its queue outlives whoever submitted, and shows a job only after a while.
    """

    def __init__(self, queue: Path, places: int) -> None:
        self._queue = queue
        self.places = places

    def submit(self, intent: Intent) -> str:
        submission = f"{os.getpid()}-{time.monotonic_ns()}"
        time.sleep(0.03)
        for index in range(intent.count):
            process = subprocess.Popen(["sleep", "300"], start_new_session=True)
            STARTED.append(process)
            name = f"{intent.token},{submission},{index},{process.pid}"
            (self._queue / name).touch()
        return submission

    def observe(self, patience: float | None = None) -> ClusterView:
        return ClusterView(tuple(self._view(path) for path in sorted(self._queue.iterdir())))

    def cancel(self, jobs: Sequence[str]) -> None:
        for path in self._queue.iterdir():
            if self._view(path).job in jobs:
                os.kill(int(path.name.split(",")[3]), signal.SIGKILL)
                path.unlink(missing_ok=True)  # as with scancel, another may have been faster

    def close(self) -> None:
        pass

    @staticmethod
    def _view(path: Path) -> JobView:
        token, submission, index, _ = path.name.split(",")
        slot = f"{submission}_{index}"
        return JobView(slot, slot, "slots", "running", token, "", submission)


TICKER = """
import sys, time
from pathlib import Path
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.storage.run_folder import RunFolder
from tests.test_orchestrator import SleepingLauncher
run, queue = sys.argv[1:]
ticking = Orchestrator(RunFolder.open(run), SleepingLauncher(Path(queue), 3))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    ticking.tick()
"""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Path]:
    """The folder of a ``SleepingLauncher``; its jobs end with the test."""
    (tmp_path / "queue").mkdir()
    yield tmp_path / "queue"
    for path in (tmp_path / "queue").iterdir():
        os.kill(int(path.name.split(",")[3]), signal.SIGKILL)
    while STARTED:
        STARTED.pop().wait()


def test_two_coordinators_at_once_never_double_the_population(tmp_path: Path, queue: Path) -> None:
    folder = create(tmp_path, "ppo", "dqn", population={"pods": {"min": 2, "max": 4}})
    command = [sys.executable, "-c", TICKER, str(folder.path), str(queue)]
    with ExitStack() as stack:
        tickers = [
            stack.enter_context(subprocess.Popen(command, stdin=PIPE, stdout=PIPE, cwd=ROOT))
            for _ in range(2)
        ]
        for ticker in tickers:
            assert ticker.stdout is not None and ticker.stdout.readline() == b"ready\n"
        for ticker in tickers:
            assert ticker.stdin is not None
            ticker.stdin.write(b"go\n")
            ticker.stdin.flush()
        assert [ticker.wait(120) for ticker in tickers] == [0, 0]
    assert len(list(queue.iterdir())) == 3
    assert [intent.count for intent in folder.intents()] == [3]


def test_a_coordinator_killed_between_intent_and_job_is_made_up_for_once(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, "ppo", "dqn")
    launcher = SleepingLauncher(queue, 2)
    folder.publish_intent(Intent(0, "t0k3n", "slots", 2))
    for _ in range(3):
        Orchestrator(folder, launcher).tick()
    assert {view.token for view in launcher.observe().jobs} == {"t0k3n"}
    assert len(launcher.observe().jobs) == 2


def test_a_coordinator_killed_between_job_and_record_is_made_up_for_by_the_record(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, "ppo", "dqn")
    launcher = SleepingLauncher(queue, 2)
    folder.publish_intent(Intent(0, "t0k3n", "slots", 2))
    submission = launcher.submit(folder.intents()[0])
    Orchestrator(folder, launcher).tick()
    assert folder.submission(0) == submission
    assert len(launcher.observe().jobs) == 2


def test_slots_that_die_at_once_are_replaced_a_few_times_and_then_the_run_has_failed(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, cluster={"max_restarts": 2})
    launcher = SleepingLauncher(queue, 1)
    ticking = Orchestrator(folder, launcher)
    for _ in range(3):
        assert ticking.tick().phase == "running"
        launcher.cancel([view.job for view in launcher.observe().jobs])
    after = ticking.tick()
    assert (after.phase, after.stop_reason) == ("finished", "failed")
    assert after.failure == "3 submissions in a row brought no report; see `hpcpod logs`"
    assert launcher.observe().jobs == ()


def test_pruning_keeps_what_boards_and_unfinished_rounds_need(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A round longer than the age at which blobs are pruned, with its replay in segments.
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    folder = create(tmp_path, "dqn", agents=agents)
    birth = first_birth(folder)
    stops = iter([False, True])
    with pytest.raises(Stopped):
        prepare(folder).execute(birth, "here", Watch(lambda: next(stops)))
    resume = folder.latest_resume(birth.pod, 1)
    assert resume is not None and resume.segments
    dust = folder.blobs.put({}, {"nobody": "needs this"})
    assert needed_blobs(folder) == set(resume.blobs())
    monkeypatch.setattr(tick, "PRUNE_SECONDS", 0.0)
    monkeypatch.setattr(tick, "DUST_SECONDS", 0.0)
    time.sleep(0.05)
    Orchestrator(folder, SleepingLauncher(queue, 1)).tick()
    assert not folder.blobs.has(dust)
    assert all(folder.blobs.has(blob) for blob in resume.blobs())
    report = train(folder, birth)
    train(folder, onward(birth, report))

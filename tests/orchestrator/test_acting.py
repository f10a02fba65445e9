"""Acting on a plan counts once, whoever else acts."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

from hpcpod.errors import LaunchError, RunNotFound, StorageError
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator import loop, tick
from hpcpod.orchestrator.snapshot import observe, refusals_of
from hpcpod.orchestrator.tick import Orchestrator, needed_blobs
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.round import Watch
from hpcpod.records.records import Board, Intent
from hpcpod.storage.requests import Drain, Scale
from hpcpod.storage.restarts import RestartRecord, Restarts
from hpcpod.storage.run_folder import RunFolder
from tests.pod.rounds import first_birth, onward, train
from tests.support.slots import ROOT
from tests.support.small_runs import AGENTS, create

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
from tests.orchestrator.test_acting import SleepingLauncher
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
        assert [ticker.wait(600) for ticker in tickers] == [0, 0]
    assert len(list(queue.iterdir())) == 3
    assert [intent.count for intent in folder.intents.all()] == [3]


def test_a_coordinator_killed_between_intent_and_job_is_made_up_for_once(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, "ppo", "dqn")
    launcher = SleepingLauncher(queue, 2)
    folder.intents.publish(Intent(0, "t0k3n", "slots", 2))
    for _ in range(3):
        Orchestrator(folder, launcher).tick()
    assert {view.token for view in launcher.observe().jobs} == {"t0k3n"}
    assert len(launcher.observe().jobs) == 2


def test_a_coordinator_killed_between_job_and_record_is_made_up_for_by_the_record(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, "ppo", "dqn")
    launcher = SleepingLauncher(queue, 2)
    folder.intents.publish(Intent(0, "t0k3n", "slots", 2))
    submission = launcher.submit(folder.intents.all()[0])
    Orchestrator(folder, launcher).tick()
    assert folder.intents.submission(0) == submission
    assert len(launcher.observe().jobs) == 2


def test_a_torn_intent_does_not_keep_the_next_from_being_submitted(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path, "ppo", "dqn")
    launcher = SleepingLauncher(queue, 2)
    Orchestrator(folder, launcher).tick()
    launcher.cancel([view.job for view in launcher.observe().jobs])
    (folder.path / "intents" / "000000.json").write_bytes(b"torn")
    folder = RunFolder.open(folder.path)
    Orchestrator(folder, launcher).tick()
    assert [intent.number for intent in folder.intents.all()] == [1]
    assert len(launcher.observe().jobs) == 2


def test_slots_that_die_at_once_are_replaced_a_few_times_and_then_the_run_is_paused(
    tmp_path: Path, queue: Path
) -> None:
    folder = create(tmp_path)
    launcher = SleepingLauncher(queue, 1)
    ticking = Orchestrator(folder, launcher)
    for _ in range(3):
        assert ticking.tick().phase == "running"
        launcher.cancel([view.job for view in launcher.observe().jobs])
    assert ticking.tick().phase == "running"
    assert folder.requests.read(Drain) == Drain(
        reason="3 submissions in a row ended without any progress; see `hpcpod logs`"
    )
    ticking.tick()
    assert ticking.drained
    assert launcher.observe().jobs == ()


def test_slots_that_have_ended_are_not_looked_into_once_a_report_has_come_since(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, launcher = create(tmp_path), SleepingLauncher(queue, 1)
    looked: list[Restarts] = []

    def records(self: Restarts) -> dict[str, RestartRecord]:
        looked.append(self)
        return {}

    monkeypatch.setattr(Restarts, "all", records)
    for number, reports in enumerate((7, 0)):  # of none that are on the board
        folder.intents.publish(Intent(number, f"t{number}", "slots", reports=reports))
        folder.intents.record(number, f"ended{number}")
        backoff = observe(folder, launcher).backoff
        assert (len(looked), backoff.failed_starts) == (number, number)


class AskedMeanwhile(SleepingLauncher):
    """A scheduler while whose answer is waited for somebody asks something of the run."""

    folder: RunFolder
    answers = True

    def observe(self, patience: float | None = None) -> ClusterView:
        if not self.answers:
            raise LaunchError("squeue failed")
        self.folder.requests.replace(Scale(1))
        return super().observe(patience)


def test_what_is_asked_during_a_tick_is_seen_and_a_failed_tick_is_not_asked_for_again(
    tmp_path: Path, queue: Path
) -> None:
    launcher = AskedMeanwhile(queue, 1)
    launcher.folder = create(tmp_path)
    ticking = Orchestrator(launcher.folder, launcher)
    ticking.tick()
    assert ticking.asked()
    launcher.answers = False
    with pytest.raises(LaunchError):
        ticking.tick()
    assert not ticking.asked()


class AnotherCoordinator(SleepingLauncher):
    """A scheduler while whose answer is waited for somebody else announces slots."""

    folder: RunFolder

    def observe(self, patience: float | None = None) -> ClusterView:
        self.folder.intents.publish(Intent(0, "0ther", "slots", 1))
        return super().observe(patience)


def test_who_was_beaten_to_a_submission_submits_no_slots_beside_it(
    tmp_path: Path, queue: Path
) -> None:
    launcher = AnotherCoordinator(queue, 1)
    launcher.folder = create(tmp_path, cluster={"launcher": "slurm"})
    Orchestrator(launcher.folder, launcher).tick()  # a coordinator, then slots
    assert [intent.token for intent in launcher.folder.intents.all()] == ["0ther"]
    assert launcher.observe().jobs == ()


class RefusingLauncher(SleepingLauncher):
    """A scheduler of small arrays that takes nothing now."""

    def submit(self, intent: Intent) -> str:
        raise LaunchError("sbatch refused: Socket timed out")

    def observe(self, patience: float | None = None) -> ClusterView:
        return ClusterView(max_array_size=1)


def test_a_request_that_is_split_is_refused_once_a_tick(tmp_path: Path, queue: Path) -> None:
    folder = create(tmp_path, population={"pods": {"min": 1, "max": 12}})
    Orchestrator(folder, RefusingLauncher(queue, 12)).tick()
    assert refusals_of(folder).count == 1
    assert len(folder.intents.all()) == 1
    assert folder.requests.read(Drain) is None


def test_what_ticks_once_prunes_too(tmp_path: Path, queue: Path) -> None:
    folder = create(tmp_path)
    leftover = folder.blobs.put({}, {"nobody": "needs this"})
    os.utime(folder.blobs.path(leftover), (1.0, 1.0))
    mark = folder.path / "lease" / tick.PRUNED

    def ticked() -> bool:
        Orchestrator(folder, SleepingLauncher(queue, 1)).tick()  # as `hpcpod tick`
        return folder.blobs.has(leftover)

    assert ticked() and mark.exists(), "the run is new"
    assert ticked()
    os.utime(mark, (1.0, 1.0))
    assert not ticked() and mark.stat().st_mtime > 1.0


def test_a_full_disk_that_refuses_a_merge_is_pruned_first(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path)
    leftover = folder.blobs.put({}, {"nobody": "needs this"})
    os.utime(folder.blobs.path(leftover), (1.0, 1.0))
    (folder.path / "lease" / tick.PRUNED).touch()
    os.utime(folder.path / "lease" / tick.PRUNED, (1.0, 1.0))

    def refuse(*given: object, **named: object) -> None:
        raise StorageError("the filesystem is full")

    monkeypatch.setattr(tick, "merge", refuse)
    with pytest.raises(StorageError):
        Orchestrator(folder, SleepingLauncher(queue, 1)).tick()
    assert not folder.blobs.has(leftover)


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
    resume = folder.checkpoints.latest(birth.pod, 1)
    assert resume is not None and resume.segments
    leftover = folder.blobs.put({}, {"nobody": "needs this"})
    assert needed_blobs(folder) == set(resume.blobs())
    monkeypatch.setattr(tick, "PRUNE_SECONDS", 0.0)
    monkeypatch.setattr(tick, "LEFTOVER_SECONDS", 0.0)
    for _ in range(2):  # the first one of a run begins the time
        time.sleep(0.05)
        Orchestrator(folder, SleepingLauncher(queue, 1)).tick()
    assert not folder.blobs.has(leftover)
    assert all(folder.blobs.has(blob) for blob in resume.blobs())
    report = train(folder, birth)
    train(folder, onward(birth, report))


def test_a_removed_run_ends_its_coordinator_and_one_that_is_unseen_for_moments_goes_on(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BELIEVED_SECONDS", 0.2)
    folder, away = create(tmp_path), tmp_path / "away"
    seen = []

    def look(board: Board) -> None:
        seen.append(board)
        folder.path.rename(away)

    def back() -> bool:
        if len(seen) == 1 and away.exists() and next(looks) > 3:
            away.rename(folder.path)
        return next(looks) > 2000

    looks = itertools.count()
    with pytest.raises(RunNotFound, match=r"the run folder .* is gone; its slots end, too"):
        loop.drive(Orchestrator(folder, SleepingLauncher(queue, 1)), back, 0.01, look)
    assert len(seen) == 2

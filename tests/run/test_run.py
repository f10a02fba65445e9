"""A run as its readers see it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import HpcpodError, LaunchError
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator import snapshot as snapshots
from hpcpod.orchestrator.loop import drive
from hpcpod.orchestrator.snapshot import STARTING_SECONDS
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.records.records import Board, Intent, Owner
from hpcpod.run import snapshot
from hpcpod.run.run import Run
from hpcpod.run.tables import queue_line
from hpcpod.storage.requests import Drain, Resumed
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import read_board
from tests.launchers.slurm.test_scripts import fake
from tests.support.slots import ROOT
from tests.support.small_runs import create


class Refusing:
    """A scheduler that is away."""

    places = 1

    def submit(self, intent: Intent) -> str:
        raise LaunchError("sbatch refused: not now")

    def observe(self, patience: float | None = None) -> ClusterView:
        raise LaunchError("squeue failed: not now")

    def cancel(self, jobs: object) -> None:
        raise LaunchError("scancel failed: not now")

    def close(self) -> None:
        pass


class Empty(Refusing):
    """A scheduler in whose queue nothing is, or these jobs."""

    jobs: tuple[JobView, ...] = ()

    def observe(self, patience: float | None = None) -> ClusterView:
        return ClusterView(self.jobs)


def old(run: Run) -> Board:
    """The run's board, as of a run that began long ago."""
    board = run.board()
    return replace(board, started=board.started - 2 * STARTING_SECONDS)


def test_a_local_run_that_nobody_drives_is_interrupted_but_not_while_it_starts(
    tmp_path: Path,
) -> None:
    run = Run(create(tmp_path))
    assert run.status().state == "waiting"
    assert run.status(old(run)).state == "interrupted"
    with run.folder.locks.driver():
        assert run.status(old(run)).state == "waiting"
    run.folder.slots.write("s", SlotStatus(host="elsewhere", pid=1, state="training"))
    assert run.status(old(run)).state == "running"
    run.folder.slots.drop("s")
    run.drain()
    assert run.status(old(run)).state == "paused"


def test_nobody_waits_for_a_run_that_nobody_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "STARTING_SECONDS", 0.0)
    run = Run(create(tmp_path))
    with pytest.raises(HpcpodError, match=r"no process runs small; `hpcpod resume .*small`"):
        run.wait(timeout=600)
    with run.folder.locks.driver(), pytest.raises(TimeoutError, match="small is still waiting"):
        run.wait(timeout=0.1, poll=0.01)


def test_watching_and_looking_at_an_interrupted_run_say_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(snapshots, "STARTING_SECONDS", 0.0)
    path = str(create(tmp_path).path)
    assert main(["watch", path]) == 75
    assert f"go on with: hpcpod resume {path}" in capsys.readouterr().out
    assert main(["status", path]) == 0
    said = capsys.readouterr().out
    assert "small: interrupted" in said
    assert f"go on with: hpcpod resume {path}" in said


def test_a_slot_on_another_host_is_at_work_while_it_shows_something(tmp_path: Path) -> None:
    run = Run(create(tmp_path))
    run.folder.slots.write("s", SlotStatus(host="elsewhere", pid=os.getpid(), state="idle"))
    assert set(run.status().slots) == {"s"}
    age(run.folder, "s", 1000)
    assert run.status().slots == {}


def test_a_slot_whose_process_id_another_process_has_now_is_not_at_work(tmp_path: Path) -> None:
    run = Run(create(tmp_path))
    run.folder.slots.write("s", SlotStatus(host=socket.gethostname(), pid=1, state="training"))
    age(run.folder, "s", 1000)
    assert run.status(old(run)).state == "interrupted"


def test_the_claims_of_another_driver_s_slots_stand_while_they_show_something(
    tmp_path: Path,
) -> None:
    folder = create(tmp_path)
    (order,) = orders(read_board(folder))
    folder.claims.take(order.id, Owner("local-9-0", "another", socket.gethostname(), os.getpid()))
    folder.slots.write("local-9-0", SlotStatus(state="training"))
    launcher = Empty()
    launcher.places = 0
    for seconds, attempt in ((0, 1), (1000, 2)):
        age(folder, "local-9-0", seconds)
        Orchestrator(folder, launcher).tick()
        assert [order.attempt for order in orders(read_board(folder))] == [attempt]


def test_resuming_what_another_process_runs_leaves_its_drain_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(create(tmp_path))
    run.drain()
    with run.folder.locks.driver():
        assert main(["resume", str(run.path)]) == 2
    assert "another process runs small already" in capsys.readouterr().err
    assert run.folder.requests.read(Drain) is not None


def age(folder: RunFolder, slot: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder.path / "slots" / f"{slot}.json", (then, then))


def test_the_claim_of_a_slot_by_hand_is_given_out_again_once_it_is_silent(tmp_path: Path) -> None:
    folder = create(tmp_path)
    (order,) = orders(read_board(folder))
    hand = "hand-elsewhere-1"
    folder.claims.take(order.id, Owner(hand, hand, "elsewhere", 1))
    folder.slots.write(hand, SlotStatus(state="training"))
    launcher = Empty()
    launcher.places = 0
    Orchestrator(folder, launcher).tick()
    assert [order.attempt for order in orders(read_board(folder))] == [1]
    age(folder, hand, 1000)
    Orchestrator(folder, launcher).tick()
    assert [order.attempt for order in orders(read_board(folder))] == [2]


def test_pausing_a_run_again_and_again_does_not_make_it_a_failure(tmp_path: Path) -> None:
    folder = create(tmp_path)
    run = Run(folder)

    class Accepting(Empty):
        def submit(self, intent: Intent) -> str:
            return f"job{intent.number}"

    for _ in range(6):
        run.undrain()
        assert Orchestrator(folder, Accepting()).tick().phase == "running"
        run.drain()
        assert Orchestrator(folder, Accepting()).tick().phase == "running"
    run.undrain()
    boards = [Orchestrator(folder, Accepting()).tick() for _ in range(4)]
    assert {board.phase for board in boards} == {"running"}
    assert "3 submissions in a row ended without any progress" in run.status().failure


def test_driving_ends_when_it_is_told_to_though_the_scheduler_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = create(tmp_path)
    asked = iter([False, False, True])
    shown: list[Board] = []
    board = drive(Orchestrator(folder, Refusing()), lambda: next(asked), 0.0, shown.append)
    assert board == read_board(folder)
    assert shown == []
    assert "squeue failed: not now; trying again at the next tick" in caplog.text


ENDING = """
import signal, subprocess, sys
from pathlib import Path
from hpcpod.run import launch
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
launch._BACKGROUND[child] = Path("runs/small")
signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(75)
"""
COORDINATOR = """
import os, signal, sys
def end(*_):
    os.kill(os.getppid(), signal.{name})
    sys.exit(75)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2", "SIGINT"])
def test_a_second_signal_while_its_coordinators_end_is_no_traceback(name: str) -> None:
    words = [sys.executable, "-c", ENDING, COORDINATOR.format(name=name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    said = "hpcpod: runs/small ended with this process; `hpcpod resume runs/small` goes on\n"
    assert done.returncode == 75
    assert done.stderr == said or (name == "SIGINT" and done.stderr == "")  # it ends the wait


def slurm_run(tmp_path: Path) -> Run:
    return Run(create(tmp_path, cluster={"launcher": "slurm"}))


def test_a_run_that_waits_on_a_cluster_says_why_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = slurm_run(tmp_path)

    def waiting(element: int, reason: str) -> JobView:
        return JobView(f"7_{element}", f"7_{element}", "slots", "pending", "t", reason)

    class Full(Empty):
        jobs = (
            *[waiting(n, reason) for n, reason in enumerate(["Resources", "Priority", "Priority"])],
            JobView("7_3", "7_3", "slots", "running", "t"),
            JobView("8", "8", "coordinator", "pending", "t", "Dependency"),
        )

    monkeypatch.setattr(snapshot, "launcher_here", lambda folder: Full())
    assert run.status().queue == {}
    assert run.status(ask_scheduler=True).queue == {"Resources": 1, "Priority": 2}
    run.folder.slots.write("7_3", SlotStatus(host="elsewhere", pid=1))
    status = run.status(ask_scheduler=True)
    assert (status.state, status.queue) == ("running", {"Resources": 1, "Priority": 2})
    assert (status.slots_running, status.slots_pending, status.coordinators) == (1, 3, 1)


def test_a_run_without_a_job_on_its_cluster_is_interrupted_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = slurm_run(tmp_path)
    empty = Empty()
    monkeypatch.setattr(snapshot, "launcher_here", lambda folder: empty)
    assert run.status(ask_scheduler=True).state == "waiting"
    assert run.status(old(run)).state == "waiting"
    assert run.status(old(run), ask_scheduler=True).state == "interrupted"
    monkeypatch.setattr(snapshots, "STARTING_SECONDS", 0.0)
    with pytest.raises(HpcpodError, match="no process runs small; `hpcpod resume"):
        run.wait(timeout=600)
    empty.jobs = (JobView("8", "8", "coordinator", "pending", "t", "Resources"),)
    with pytest.raises(TimeoutError, match="small is still waiting"):
        run.wait(timeout=0.1, poll=0.01)


@pytest.mark.parametrize(
    ("queue", "line"),
    [
        ({"Resources": 1, "Priority": 2}, "3 slots wait: Resources (1), Priority (2)"),
        ({"QOSMaxJobsPerUserLimit": 1}, "1 slot waits: QOSMaxJobsPerUserLimit (1)"),
    ],
)
def test_a_queue_in_one_line(queue: dict[str, int], line: str) -> None:
    assert queue_line(queue) == line


def test_a_scheduler_that_does_not_answer_keeps_nobody_from_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = slurm_run(tmp_path)
    (tmp_path / "bin").mkdir()
    fake(tmp_path / "bin", "squeue", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(snapshot, "QUEUE_SECONDS", 0.2)
    began = time.monotonic()
    status = run.status(ask_scheduler=True)
    assert time.monotonic() - began < 30
    assert (status.state, status.queue) == ("waiting", {})
    assert status.unknown == "squeue did not answer within 0.2 s"
    assert (status.slots_pending, status.coordinators) == (None, None)


def test_an_old_request_to_resume_is_replaced(tmp_path: Path) -> None:
    run = Run(create(tmp_path))
    for number in range(2):
        run.undrain()
        assert (run.folder.requests.read(Resumed) or Resumed()).intents == number
        run.folder.intents.publish(Intent(number, "t", "slots"))

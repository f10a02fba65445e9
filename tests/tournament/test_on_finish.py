"""``on_finish``: a real command, run once by whoever finishes the run, that harms nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hpcpod._process import StopFlag
from hpcpod.cli.parser import main
from hpcpod.records.records import Board
from hpcpod.run.run import open_run
from hpcpod.slot.__main__ import _finish
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.on_finish import run_on_finish
from hpcpod.tournament.rules import Rules
from tests.support.slots import ROOT
from tests.support.small_runs import create, wait_for

ABOUT = 'env | grep ^HPCPOD_ | sort; pwd; cat; echo "$HPCPOD_NAME" >> done'
"""Writes what it is told into its log, with what it can read, and a line into ``done``."""


@pytest.fixture(autouse=True)
def nothing_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep variables that continuous integration sets for tests out of what the command shows."""
    for name in [name for name in os.environ if name.startswith("HPCPOD_")]:
        monkeypatch.delenv(name)


def ended(home: Path, command: str | None, **sections: Any) -> tuple[RunFolder, Board]:
    """A run that was ended before its first round, and its board."""
    folder = create(home, on_finish=command, **sections)
    return folder, merge(folder, Rules.of_run(folder), stop="user")


def log_of(folder: RunFolder) -> str:
    return (folder.path / "logs" / "on_finish.log").read_text()


def gone(pid: int) -> bool:
    """True if a process has ended; nobody may have asked for its exit code yet."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_command_knows_of_the_run_and_is_run_once(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, board = ended(home / "runs", ABOUT)
    for _ in range(2):
        run_on_finish(folder, board)
    assert log_of(folder).splitlines() == [
        "HPCPOD_BEST=", "HPCPOD_NAME=small", "HPCPOD_REASON=user", f"HPCPOD_RUN={folder.path}",
        "HPCPOD_STATE=finished", str(folder.path),
    ]  # fmt: skip
    assert (folder.path / "done").read_text() == "small\n"
    assert not caplog.records


def test_launch_runs_it_with_the_score_and_a_failed_command_is_a_warning(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = 'echo "$HPCPOD_BEST $HPCPOD_STATE $HPCPOD_REASON"; exit 3'
    assert main(["launch", "good.yaml", "--set", f"on_finish={command}"]) == 0
    run = open_run("small")
    best = run.best()
    assert best is not None
    said = (run.path / "logs" / "on_finish.log").read_text()
    assert said == f"{best.mean:.6g} finished rounds\n"
    warned = "small: on_finish: the command ended with exit code 3; see logs/on_finish.log"
    assert caplog.text.count(warned) == 1
    assert main(["tick", "small"]) == 0
    assert (run.path / "logs" / "on_finish.log").read_text() == said


def test_a_verb_that_finishes_a_run_runs_it(home: Path) -> None:
    folder = create(home / "runs", on_finish=ABOUT)
    assert main(["stop", "small", "--now"]) == 0
    assert "HPCPOD_REASON=user" in log_of(folder)


def test_a_run_that_goes_on_or_has_no_command_runs_none(home: Path) -> None:
    folder = create(home / "runs", on_finish=ABOUT)
    run_on_finish(folder, read_board(folder))
    other, board = ended(home / "others", None)
    run_on_finish(other, board)
    assert not list(home.glob("*/*/control/on_finish.json"))


def test_a_command_that_hangs_is_ended_with_all_that_it_has_started(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, board = ended(home / "runs", "sleep 987 & echo $! > pids; sleep 987")
    run_on_finish(folder, board, seconds=0.5)
    assert "did not end within 0.5 s, and was ended" in caplog.text
    wait_for("its child's end", lambda: gone(int((folder.path / "pids").read_text())))


def test_a_command_that_can_t_be_started_is_a_warning(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, board = ended(home / "runs", "true")
    monkeypatch.setenv("PATH", "/nonexistent")
    run_on_finish(folder, board)
    assert "small: on_finish: " in caplog.text and "timeout" in caplog.text


def test_no_value_is_executed(home: Path) -> None:
    hostile = "$(touch pwned) `touch pwned`; touch pwned"
    folder, board = ended(home / "runs" / hostile, 'echo "$HPCPOD_RUN"; eval true $0')
    run_on_finish(folder, board)
    assert log_of(folder) == f"{folder.path}\n"
    assert not list(home.rglob("pwned"))


PROCESS = """\
import sys, pathlib
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.on_finish import run_on_finish
folder = RunFolder.open(sys.argv[1])
board = read_board(folder)
print("ready", flush=True)
while not pathlib.Path("go").exists():
    pass
run_on_finish(folder, board, seconds=float(sys.argv[2]))
"""
"""Ends a run once there is a file ``go``."""


def process(folder: RunFolder, seconds: float = 60.0) -> subprocess.Popen[str]:
    """A process that is ready to run the command."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder.path), str(seconds)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    started.stdout.close()
    return started


def test_of_processes_that_finish_a_run_at_once_one_runs_it(home: Path) -> None:
    folder, _ = ended(home / "runs", "echo ran >> done; sleep 0.1")
    both = [process(folder), process(folder)]
    (home / "go").touch()
    assert [each.wait(600) for each in both] == [0, 0]
    assert (folder.path / "done").read_text() == "ran\n"


def test_who_is_killed_after_the_mark_leaves_it_undone_and_the_limit_holds(home: Path) -> None:
    folder, board = ended(home / "runs", "echo $$ > pids; sleep 987")
    killed = process(folder, seconds=1.0)
    (home / "go").touch()
    pids = folder.path / "pids"
    wait_for("the command", lambda: pids.exists() and pids.read_text().endswith("\n"))
    killed.kill()
    killed.wait()
    run_on_finish(folder, board)
    wait_for("its end", lambda: gone(int(pids.read_text())))
    mark = json.loads((folder.path / "control" / "on_finish.json").read_bytes())
    assert mark["payload"]["pid"] == killed.pid


@pytest.mark.parametrize("alive", [True, False])
def test_a_slot_runs_it_on_a_cluster_where_no_coordinator_is_left(
    home: Path, alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcpod.slot.__main__.LEASE_SECONDS", 0.1)
    config = {"cluster": {"launcher": "slurm", "partition": "low"}}
    folder, _ = ended(home / "runs", ABOUT, **config)
    with RunFolder.open(folder.path).locks.coordinator() as leading:
        assert leading
        if alive:
            _finish(folder, StopFlag())
    if not alive:
        _finish(folder, StopFlag())
    assert (folder.path / "logs" / "on_finish.log").exists() is not alive


def test_a_slot_waits_for_the_lease_of_a_coordinator_that_was_killed(home: Path) -> None:
    config = {"cluster": {"launcher": "slurm", "partition": "low"}}
    folder, _ = ended(home / "runs", ABOUT, **config)
    held = RunFolder.open(folder.path).locks.coordinator()
    assert held.__enter__()
    slot = threading.Thread(target=_finish, args=(folder, StopFlag()))
    slot.start()
    slot.join(0.5)
    assert slot.is_alive()
    held.__exit__(None, None, None)
    slot.join(60)
    assert (folder.path / "logs" / "on_finish.log").exists()


def test_a_slot_of_this_machine_leaves_it_to_who_runs_the_slots(home: Path) -> None:
    folder, _ = ended(home / "runs", ABOUT)
    _finish(folder, StopFlag())
    assert not (folder.path / "control" / "on_finish.json").exists()


def test_where_others_can_write_the_configuration_nothing_is_run(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, board = ended(home / "runs", ABOUT)
    (folder.path / "config.json").chmod(0o666)
    run_on_finish(RunFolder.open(folder.path), board)
    assert "config.json can be written by others than you" in caplog.text
    assert not (folder.path / "logs" / "on_finish.log").exists()

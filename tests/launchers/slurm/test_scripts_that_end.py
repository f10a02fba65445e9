"""Scripts that launch a run on this machine and end, with it or without it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from hpcpod.orchestrator import snapshot
from tests.launchers.test_local import LONG, Shell
from tests.launchers.test_local import shell as shell
from tests.support.command_line import without_progress
from tests.support.slots import ROOT
from tests.support.small_runs import wait_for

pytestmark = pytest.mark.slow

SCRIPT = "import sys, hpcpod; hpcpod.launch(sys.argv[1], runs=sys.argv[2], {})"


def ended(shell: Shell, given: str = "", **sections: Any) -> str:
    """What a script that launches a run, and no more, says on standard error."""
    shell.write(**sections)
    words = [sys.executable, "-c", SCRIPT.format(given), "small.yaml", "runs"]
    done = subprocess.run(
        words, cwd=shell.home, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stderr


def test_a_script_that_ends_says_before_that_its_run_will(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "STARTING_SECONDS", 0.0)
    said = ended(shell, **LONG, stop={"rounds": 5}).splitlines()
    assert said[-2].startswith("small ends with this process: run.wait() waits for its end; ")
    path = shell.run.word
    assert said[-1].endswith(f"small ended with this process; `hpcpod resume {path}` goes on")
    assert shell.orphans() == []
    assert shell.run.status().state == "interrupted"


def test_whoever_knows_it_is_not_told_before(shell: Shell) -> None:
    said = ended(shell, "detach=False", **LONG, stop={"rounds": 5})
    assert "run.wait() waits for its end" not in said
    assert said.endswith(f"`hpcpod resume {shell.run.word}` goes on\n")


def test_a_detached_run_outlives_its_script_and_ends_as_any_other(shell: Shell) -> None:
    said = ended(shell, "detach=True", **LONG, stop={"rounds": 2})
    assert without_progress(said) == ""
    assert shell.run.board().phase == "running"
    assert shell.run.wait(timeout=600).stop_reason == "rounds"
    wait_for("the end of every process", lambda: shell.orphans() == [])


def test_a_detached_run_is_paused_resumed_and_stopped_from_outside(shell: Shell) -> None:
    ended(shell, "detach=True", **LONG, stop={"rounds": 100})
    wait_for("a slot", lambda: bool(shell.run.folder.slots.all()))
    shell.run.pause()
    assert shell.run.wait(timeout=600).state == "paused"
    wait_for("the end of every process", lambda: shell.orphans() == [])
    code = "import sys, hpcpod; hpcpod.open_run(sys.argv[1]).resume(detach=True)"
    subprocess.run(
        [sys.executable, "-c", code, str(shell.run.path)], cwd=ROOT, check=True, timeout=600
    )
    wait_for("a report", lambda: shell.run.board().reports > 0)
    shell.run.stop()
    assert shell.run.wait(timeout=600).stop_reason == "user"
    wait_for("the end of every process", lambda: shell.orphans() == [])


def test_a_detached_run_whose_coordinator_is_killed_leaves_no_process(shell: Shell) -> None:
    ended(shell, "detach=True", **LONG, stop={"rounds": 100})
    wait_for("a slot", lambda: bool(shell.run.folder.slots.all()))
    path = str(shell.run.path)
    (coordinator,) = (
        process
        for process in psutil.process_iter(["cmdline"])
        if {"hpcpod.orchestrator", path} <= set(process.info["cmdline"] or ())
    )
    coordinator.kill()
    wait_for("the end of every process", lambda: shell.orphans() == [])

"""The training of a cycle's run by one process after another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hpcpod.run.continuous.training import drive
from hpcpod.run.run import open_run
from tests.support.small_runs import create, wait_for

DRIVE = """
import sys
from hpcpod.run.continuous.training import drive
from hpcpod.run.run import open_run
drive(open_run(sys.argv[1]))
"""


def test_a_process_that_waits_for_another_goes_on_itself_when_that_one_is_killed(
    tmp_path: Path,
) -> None:
    path = create(tmp_path, stop={"rounds": 4}).path
    run = open_run(path)
    words = [sys.executable, "-c", DRIVE, str(path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        wait_for("a first report", lambda: run.board().reports > 0)
        first.kill()
    assert run.folder.locks.driven() and run.board().phase != "finished"
    drive(run)  # once said: no process runs it, `hpcpod resume` goes on
    assert run.board().phase == "finished"

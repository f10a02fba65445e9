"""Long commands go on when nobody reads what they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.command_line import without_progress
from tests.support.small_runs import mapping


def test_training_outlives_its_reader(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(str(mapping()))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "train", "small.yaml", "--env-steps", "128"],
        cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert (tmp_path / "small.h5").exists()


def test_a_looker_ends_with_its_reader(finished_run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "watch", str(finished_run)],
        stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")

"""The footprint of a slot's processes: real ones, and a driver that is a script."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcpod.slot.footprint import GpuUse, measured
from tests.launchers.slurm.test_scripts import fake
from tests.support.small_runs import wait_for

WORK = """
import os, sys, time
held = bytearray(os.urandom(1)) * (96 << 20)
while time.process_time() < 0.5: pass
print("done", flush=True)
sys.stdin.read()
"""
"""96 MiB, and half a second of a core."""


def test_memory_and_time_of_a_session_are_counted_while_it_runs_and_time_after() -> None:
    before = measured([])
    child = subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"done\n"
    with_it = measured([child.pid])
    assert with_it.peak_mib - before.peak_mib > 96
    assert with_it.cpu_seconds - before.cpu_seconds > 0.45
    assert measured([]).peak_mib < with_it.peak_mib - 96, "another session is not ours"
    child.communicate()
    assert measured([]).cpu_seconds - before.cpu_seconds > 0.45, "it was waited for"


def said(use: GpuUse) -> float:
    """The answer to the last question, once it is there."""
    found: list[float] = []

    def answered() -> bool:
        share = use.look()
        found.extend([] if share is None else [share])
        return bool(found)

    wait_for("an answer", answered)
    use.close()
    return found[0]


def test_gpus_are_asked_for_at_one_look_and_answer_at_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "nvidia-smi", f'echo "$@" >> {tmp_path}/calls; printf "20\\n40\\n[N/A]\\n"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    use = GpuUse()
    assert use.look() is None, "it was not asked before"
    assert said(use) == pytest.approx(0.3)
    asked = (tmp_path / "calls").read_text().splitlines()[0]
    assert asked == "--query-gpu=utilization.gpu --format=csv,noheader,nounits -i 2,5"


def test_a_driver_that_hangs_or_is_missing_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    use = GpuUse()
    assert [use.look(), use.look()] == [None, None]
    fake(tmp_path, "nvidia-smi", "exec /bin/sleep 30")
    begun = time.monotonic()
    assert [use.look(), use.look(), use.look()] == [None] * 3
    use.close()
    assert time.monotonic() - begun < 30

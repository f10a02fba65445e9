"""Commands that are given a time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpcpod.doctor.commands import ask
from tests.support.slots import gone
from tests.support.small_runs import wait_for


@pytest.mark.long
def test_what_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hang = f"trap '' TERM; sleep 300 & echo $! $$ > {pids}; wait"
    answer = ask(["sh", "-c", hang], 1.0)
    assert (answer.code, answer.err) == (None, "sh did not answer within 1 s")
    left = [int(pid) for pid in pids.read_text().split()]
    wait_for("the end of what it had started", lambda: all(map(gone, left)), seconds=10)


def test_what_is_not_there_or_can_not_be_run_is_said(tmp_path: Path) -> None:
    assert ask([str(tmp_path / "nothing")], 5).err == "there is no nothing here"
    (tmp_path / "text").write_text("no program")
    assert ask([str(tmp_path / "text")], 5).err == "text can't be run: Permission denied"


def test_an_answer_has_its_words_and_its_code() -> None:
    answer = ask([sys.executable, "-c", "import sys; print('a'); sys.exit('b')"], 60)
    assert (answer.code, answer.out, answer.err, answer.ok) == (1, "a\n", "b\n", False)
    assert ask(["true"], 60).ok

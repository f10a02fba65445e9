"""Locks save work; whoever can't get one goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from hpcpod.storage.locks import Lease, file_lock, is_held
from hpcpod.storage.run_folder import RunFolder
from tests.storage.faults import finish, start

SECONDS = 0.6


def hold(path: Path, seconds: float) -> None:
    with Lease(path, seconds).taken() as held:
        assert held
        path.with_name("ready").touch()
        time.sleep(60)


@pytest.fixture
def holder(tmp_path: Path) -> int:
    """A process that holds the lease."""
    pid = start(lambda: hold(tmp_path / "lease", SECONDS))
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    return pid


def taken(lease: Lease) -> bool:
    with lease.taken() as held:
        return held


def test_a_lease_is_given_back_at_the_end(tmp_path: Path) -> None:
    first, second = Lease(tmp_path / "lease", 9), Lease(tmp_path / "lease", 9)
    with first.taken() as held:
        assert held
        assert not taken(second)
    assert taken(second)
    assert taken(first)


def test_a_lease_whose_holder_shows_life_is_not_taken_over(holder: int, tmp_path: Path) -> None:
    lease = Lease(tmp_path / "lease", SECONDS)
    for _ in range(15):
        assert not taken(lease)
        time.sleep(0.1)
    os.kill(holder, signal.SIGKILL)
    finish(holder)
    deadline = time.monotonic() + 5
    while not taken(lease):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_lease_of_a_stopped_holder_is_taken_over_after_its_time(
    holder: int, tmp_path: Path
) -> None:
    lease = Lease(tmp_path / "lease", SECONDS)
    os.kill(holder, signal.SIGSTOP)
    started = time.monotonic()
    while not taken(lease):
        assert time.monotonic() - started < 10
        time.sleep(0.05)
    assert time.monotonic() - started >= SECONDS * 0.9
    os.kill(holder, signal.SIGKILL)
    os.kill(holder, signal.SIGCONT)
    finish(holder)


def test_a_lease_of_another_duration_is_somebody_elses(tmp_path: Path) -> None:
    with Lease(tmp_path / "lease", 5).taken() as held:
        assert held
        assert not taken(Lease(tmp_path / "lease", 6))


def test_a_merge_waits_for_the_one_before_and_then_goes_on(run: RunFolder) -> None:
    def keep() -> None:
        with RunFolder.open(run.path).locks.merge(1) as held:
            assert held
            (run.path / "ready").touch()
            time.sleep(60)

    pid = start(keep)
    while not (run.path / "ready").exists():
        time.sleep(0.01)
    started = time.monotonic()
    with run.locks.merge(0.3) as held:
        assert held is False
    assert time.monotonic() - started >= 0.25
    os.kill(pid, signal.SIGKILL)
    finish(pid)
    with run.locks.merge(1) as held:
        assert held


def test_where_there_are_no_locks_one_goes_on_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with file_lock(tmp_path / "file" / "lock", 1) as held:
        assert held is None
    with Lease(tmp_path / "file" / "lease", 1).taken() as held:
        assert held


def test_an_error_in_the_body_comes_out_and_frees_the_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="mine"), file_lock(tmp_path / "lock", 0) as held:
            assert held
            raise ValueError("mine")
    lease = Lease(tmp_path / "lease", 9)
    for _ in range(2):
        with pytest.raises(ValueError, match="mine"), lease.taken() as held:
            assert held
            raise ValueError("mine")


def test_a_look_at_a_lock_tells_whether_it_is_held_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert is_held(path) is False
    assert not path.exists()
    with file_lock(path, 0) as held:
        assert held
        path.chmod(0o444)
        assert [is_held(path) for _ in range(3)] == [True] * 3
        with file_lock(path, 0) as again:
            assert not again, "it was looked at, not freed"
    assert is_held(path) is False
    path.chmod(0o644)
    with file_lock(path, 0) as held:
        assert held
    assert is_held(tmp_path / "lock" / "below a file") is None


def test_a_lock_makes_no_folder(tmp_path: Path) -> None:
    with file_lock(tmp_path / "gone" / "lock", 0) as held:
        assert held is None
    with Lease(tmp_path / "gone" / "lease", 9).taken():
        pass
    assert list(tmp_path.iterdir()) == []

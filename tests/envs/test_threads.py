"""Threads that help the caller's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pytest

from hpcpod.envs.mujoco.threads import Helpers


@pytest.fixture
def helpers() -> Iterator[Helpers]:
    made = Helpers(2, "helper")
    yield made
    made.close()
    assert not any(thread.name == "helper" for thread in threading.enumerate())


def test_each_thread_does_the_work_once(helpers: Helpers) -> None:
    for _ in range(200):
        together = threading.Barrier(3, timeout=30)
        names: deque[str] = deque()

        def work(together: threading.Barrier = together, names: deque[str] = names) -> None:
            together.wait()  # passes only if all three are here
            names.append(threading.current_thread().name)

        helpers.run(work)
        assert sorted(names) == ["MainThread", "helper", "helper"]


def test_nothing_is_under_way_when_run_is_back(helpers: Helpers) -> None:
    for _ in range(2000):
        pending, done = deque(range(10)), deque[int]()

        def work(pending: deque[int] = pending, done: deque[int] = done) -> None:
            while pending:
                try:
                    done.append(pending.popleft())
                except IndexError:
                    return

        helpers.run(work)
        assert sorted(done) == list(range(10))


@pytest.mark.parametrize("culprit", ["helper", "MainThread"])
def test_an_error_of_any_thread_is_raised_when_all_are_done(helpers: Helpers, culprit: str) -> None:
    together = threading.Barrier(3, timeout=30)
    done = []

    def work() -> None:
        together.wait()
        if threading.current_thread().name == culprit:
            raise ValueError("a simulation failed")
        done.append(1)

    with pytest.raises(ValueError, match="a simulation failed"):
        helpers.run(work)
    assert len(done) == (1 if culprit == "helper" else 2)
    helpers.run(lambda: done.append(1))  # they are still there
    assert len(done) >= 2


def test_closed_helpers_do_nothing(helpers: Helpers) -> None:
    helpers.close()
    helpers.close()
    with pytest.raises(RuntimeError, match="close"):
        helpers.run(lambda: None)

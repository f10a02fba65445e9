"""The work that a kill can cost: what was trained since the last checkpoint of the round."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcpod.pod.__main__ import prepare
from hpcpod.pod.round import Watch
from tests.pod.rounds import first_birth
from tests.support.small_runs import create

ITERATION = 4 * 32
"""Steps: environments times horizon."""
SECONDS = 5.0
"""That an iteration seems to take."""


def test_by_default_less_than_a_minute_is_between_two_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations = 60
    folder = create(tmp_path, round={"env_steps": iterations * ITERATION})
    birth, began, real = first_birth(folder), time.monotonic(), time.monotonic
    saved: list[int] = []
    unsaved: list[float] = []
    asked = 0

    def should_stop() -> bool:
        """Once in each iteration: how much would a kill cost now?"""
        nonlocal asked
        asked += 1
        resume = folder.checkpoints.latest(birth.pod, birth.round)
        saved.append(0 if resume is None else resume.env_steps)
        unsaved.append(((asked - 1) * ITERATION - saved[-1]) / ITERATION * SECONDS)
        return False

    # The clock runs ahead by the iterations: five real minutes would be too long for a test.
    monkeypatch.setattr(time, "monotonic", lambda: real() + asked * SECONDS)
    prepare(folder).train(birth, "here", Watch(should_stop))
    assert asked >= iterations and time.monotonic() - began > iterations * SECONDS
    assert 0 < max(unsaved) < 60
    assert len(set(saved)) > iterations * SECONDS / 60

"""A run folder that an older version made is opened, resumed and finished by this one.

``tests/data/run-0.1.0.tar.gz``: PPO and DQN on CartPole, paused before the last rounds, by 0.1.0.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main

MADE = Path(__file__).parents[1] / "data" / "run-0.1.0.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(MADE) as archive:
        if sys.version_info >= (3, 12):
            archive.extractall(tmp_path, filter="data")
        else:
            archive.extractall(tmp_path)
    return tmp_path / "run-0.1.0"


def test_it_stands_where_it_stood(old: Path) -> None:
    status = hpcpod.open_run(old).status()
    assert (status.state, status.pods, status.born, status.copies) == ("paused", 3, 4, 1)
    assert (status.rounds, status.env_steps) == (8, 64_128)
    assert status.best is not None
    assert (status.best.pod, status.best.mean) == ("p0001", 500.0)


def test_its_tables_are_read(old: Path) -> None:
    run = hpcpod.open_run(old)
    rounds = run.rounds()
    assert rounds["counted"].all() and rounds["trained_steps"].sum() == 64_128
    assert rounds["ended"].is_monotonic_increasing and rounds["seconds"].min() > 0
    used = run.usage().set_index("purpose")["slot_seconds"]
    assert used["unknown"] == used.sum() > 0, "slots did not account for it then"


def test_it_is_resumed_and_finished(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(old), "--any-engine"]) == 0, capsys.readouterr().err
    run = hpcpod.open_run(old)
    status = run.status()
    assert status.state == "finished"
    assert status.rounds >= 9, "each of three pods has trained three rounds"
    assert run.leaderboard()[0].pod == "p0001", "the best, as it was before"
    policy = hpcpod.load_policy(old)
    assert int(policy(np.zeros(4, np.float32))) in (0, 1)

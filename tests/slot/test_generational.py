"""Scheme ``generational`` on real slots: no round begins before the barrier of the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from tests.support.slots import SlotProcess
from tests.support.small_runs import create

pytestmark = pytest.mark.slow


def moments(folder: RunFolder, kind: str, rounds: int) -> list[tuple[float, float]]:
    """When the files of each round's orders were written: the first and the last."""
    found = []
    for number in range(1, rounds + 1):
        files = (folder.path / kind).glob(f"*/*-{number:05d}-*")
        times = [path.stat().st_mtime for path in files]
        found.append((min(times), max(times)))
    return found


@pytest.mark.parametrize("beside", [False, True])
def test_two_slots_train_a_generational_run_on_cartpole_to_its_end(
    beside: bool, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {
        "population": {
            "scheme": "generational",
            "quorum": 1.0,
            "algorithms": {"ppo": 2, "dqn": 1},
            "pods": {"min": 1, "max": 4},
        },
        "stop": {"rounds": 3},
        "pod": {"score_beside": beside},
        "resources": {"cpus_per_pod": 2},
    }
    folder = create(tmp_path, "ppo", "dqn", **changes)
    slots = [SlotProcess(folder, slot=name) for name in ("one", "two")]
    for slot in slots:
        assert slot.end() == 0, slot.log
    board = read_board(folder)
    assert (board.phase, board.stop_reason, board.rounds) == ("finished", "rounds", 12)
    assert {pod.judged for pod in board.living if pod.algorithm == "ppo"} == {
        3
    }  # a lone dqn has no kin
    assert (folder.path / "best.h5").exists()
    begun, done = moments(folder, "claims", 3), moments(folder, "reports", 3)
    for number in (1, 2):
        assert begun[number][0] >= done[number - 1][1]

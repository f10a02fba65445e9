"""The snapshot of a run, beside its board."""

from __future__ import annotations

import time
from pathlib import Path

from hpcpod.launchers.base import Cancelled, ClusterView
from hpcpod.records.records import Intent
from hpcpod.run.requests import undrain
from hpcpod.run.snapshot import see
from tests.support.small_runs import create


def test_only_slots_that_are_missed_count_as_cancelled(tmp_path: Path) -> None:
    """Not another run's, not those that were told to leave, nor those of before a resume."""
    folder = create(tmp_path, cluster={"launcher": "slurm"})
    now = time.time()
    folder.intents.publish(Intent(0, "a", "slots", 4, time=now - 100))
    folder.intents.record(0, "7")
    folder.slots.retire("7_2", "now", "fewer are wanted")
    view = ClusterView(
        cancelled=(
            Cancelled("7_0", "7", now - 90),
            Cancelled("7_1", "7", now - 30),
            Cancelled("7_2", "7", now - 30),
            Cancelled("8_0", "8", now - 30),
        )
    )

    def cancelled() -> list[tuple[str, bool]]:
        return [(slot.slot, replaced) for slot, replaced in see(folder, view=view).cancelled]

    assert cancelled() == [("7_0", False), ("7_1", False)]
    folder.intents.publish(Intent(1, "b", "slots", 1, time=now - 60))
    assert cancelled() == [("7_0", True), ("7_1", False)]
    assert see(folder).cancelled == ()
    undrain(folder)
    assert cancelled() == []

"""The snapshot of a run, beside its board."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.launchers.base import Cancelled, ClusterView
from hpcpod.launchers.factory import launcher_of
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.orchestrator.plan import Action, Merge, Record, Submit, plan
from hpcpod.orchestrator.snapshot import Snapshot, observe
from hpcpod.records.records import Intent
from hpcpod.run.explain import why_run
from hpcpod.run.requests import undrain
from hpcpod.run.snapshot import see
from hpcpod.run.status import status_of
from hpcpod.storage.run_id import run_id
from tests.launchers.slurm.test_scripts import fake
from tests.support.small_runs import create


def test_only_slots_that_are_missed_count_as_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr(SlurmLauncher, "observe", lambda *_: view)

    def cancelled() -> list[tuple[str, bool]]:
        return [(slot.slot, replaced) for slot, replaced in see(folder, ask=True).cancelled]

    assert cancelled() == [("7_0", False), ("7_1", False)]
    folder.intents.publish(Intent(1, "b", "slots", 1, time=now - 60))
    assert cancelled() == [("7_0", True), ("7_1", False)]
    assert see(folder).cancelled == ()
    undrain(folder)
    assert cancelled() == []


def test_one_snapshot_serves_the_plan_the_status_and_the_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path, "ppo", "dqn", cluster={"launcher": "slurm"})
    folder.intents.publish(Intent(0, "t0", "coordinator"))
    (tmp_path / "bin").mkdir()
    mark = f"hpcpod:{run_id(folder.path)}:coordinator:t0"
    line = f"7|RUNNING|0|0:05|10:00|N/A|low|n1|None|{mark}|"
    # With "-t all" the end of a job comes first.
    fake(tmp_path / "bin", "squeue", f'[[ "$*" == *all* ]] && printf "N/A|"; echo "{line}"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    looked = see(folder, ask=True, failures=True)
    ticked = observe(folder, launcher_of(folder))

    def planned(snapshot: Snapshot) -> list[Action]:
        return plan(replace(snapshot, now=0.0), lambda: "new")

    assert planned(ticked) == [
        Submit(Intent(1, "new", "coordinator", 1, 0, 0.0, 2)),
        Record(0, "7"),
        Submit(Intent(2, "new", "slots", 2, 0, 0.0, 2)),
        Merge(),
    ]
    assert planned(looked) == planned(ticked)
    for snapshot in (looked, ticked):
        assert status_of(folder, snapshot).coordinators == 1
        assert "0 slots at work, 2 wanted: as many as population.pods.max has" in " ".join(
            why_run(snapshot)
        )

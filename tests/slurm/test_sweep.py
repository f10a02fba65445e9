"""A sweep on a real Slurm: one array, a preempted element, every cell to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcpod.run.sweeps.folder import open_sweep
from tests.slurm.runs import PACED, Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SWEPT = f"""\
name: swept
env: {PACED}
population: {{pods: {{min: 1, max: 1}}}}
round: {{env_steps: 1024, episodes: 2}}
agents: {{ppo: {{horizon: 16, hidden: 16}}}}
pod: {{checkpoint_seconds: 0.5}}
stop: {{env_steps: 1024, finalists: 1, confirm_episodes: 2}}
cluster: {{launcher: slurm, partition: low, minutes: 30, slots: 2, tick_seconds: 0.2}}
sweep:
  over: {{agents.ppo.gamma: [0.9, 0.99, 0.999]}}
"""


def test_elements_of_one_array_run_the_cells_and_come_back_after_a_preemption(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=5)), tmp_path)
    (tmp_path / "swept.yaml").write_text(SWEPT)
    assert "#SBATCH --array=0-1" in shell.hpcpod("launch", "swept.yaml", "--no-probe", "--dry-run")
    assert "swept: submitted " in shell.hpcpod("launch", "swept.yaml", "--no-probe")
    sweep = open_sweep(tmp_path / "runs" / "swept")
    first = sweep.run(sweep.cells[0]).folder
    shell.cluster.wait(
        "a checkpoint in the first cell",
        lambda: first.checkpoints.latest("p0001", 1) is not None, 120,
    )  # fmt: skip
    [job] = {element.partition("_")[0] for element in shell.jobs()}
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 1")  # fmt: skip
    shell.cluster.wait("every cell's end", lambda: len(sweep.kept()) == 3, 180)
    told = json.loads(shell.hpcpod("sweep", "status", "swept", "--json"))
    assert told["fates"] == {"finished": 3} and set(told["jobs"]) == {"running", "pending"}
    assert {row["env_steps"] for row in told["rows"]} == {1024}
    assert "Restarts=1" in shell.cluster.run("scontrol", "show", "job", f"{job}_0")
    logs = "".join(path.read_text() for path in (first.path / "logs").glob("local-*.log"))
    assert "p0001-00001-2 goes on at " in logs
    assert "all its runs have ended" in shell.hpcpod("sweep", "resume", "swept", code=2)


def test_a_resume_right_after_a_stop_submits_though_elements_are_at_their_checkpoint(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=5)), tmp_path)
    (tmp_path / "swept.yaml").write_text(SWEPT.replace("env_steps: 1024", "env_steps: 40_000_000"))
    shell.hpcpod("launch", "swept.yaml", "--no-probe")
    sweep = open_sweep(tmp_path / "runs" / "swept")
    first = sweep.run(sweep.cells[0]).folder
    shell.cluster.wait(
        "a checkpoint in the first cell",
        lambda: first.checkpoints.latest("p0001", 1) is not None, 120,
    )  # fmt: skip
    shell.hpcpod("sweep", "stop", "swept")
    assert "swept: submitted " in shell.hpcpod("sweep", "resume", "swept")

    def goes_on() -> bool:
        logs = (path.read_text() for path in (first.path / "logs").glob("local-*.log"))
        return "p0001-00001-2 goes on at " in "".join(logs)

    shell.cluster.wait("its going on", goes_on, 120)
    shell.hpcpod("sweep", "stop", "swept")
    shell.cluster.drained(60.0)

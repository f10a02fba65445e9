"""``hpcpod evaluate --slurm``: an array on a real Slurm, and a command that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.config.schema import EnvConfig
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import SlurmCluster
from tests.support.untrained import untrained

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_a_command_that_was_killed_goes_on_with_the_jobs_that_it_had_submitted(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    shell = Shell(slurm_cluster, tmp_path)
    slow = EnvConfig("tests.support.faulty_envs:Slow", kwargs={"pause": 0.002})
    untrained(tmp_path / "slow.h5", slow)
    words = (
        "evaluate", "slow.h5", "--episodes", "64", "--slurm", "--cores", "2",
        "--set", "cluster.partition=low", "--set", "cluster.minutes=5", "--json",
    )  # fmt: skip
    scores = tmp_path / "evaluations"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpcpod", *words],
        cwd=tmp_path, env=slurm_cluster.env(), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    slurm_cluster.wait("a claim", lambda: any(scores.glob("claims/*/*")), 120)
    process.kill()
    process.wait()
    arrays = {job.partition("_")[0] for job in shell.jobs()}
    assert len(arrays) == 1  # with both elements, or with the one that is left
    said = shell.hpcpod(*words)
    assert "submitted" not in said
    [row] = json.loads(said)["rows"]
    assert row["episodes"] == 64 and row["paired"]
    assert len(list(scores.glob("scores/*.json"))) == 4
    slurm_cluster.wait("no job is left", lambda: not shell.jobs(), 60)
    assert shell.hpcpod(*words) == said  # with no job at all

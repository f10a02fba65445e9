"""A finished run on a real Slurm is extended: its coordinator and its slots are submitted anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.runs import Shell
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_an_extended_run_is_submitted_anew_and_ends_again(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    shell = Shell(slurm_cluster, tmp_path, probe=False)
    command = 'on_finish=echo "$HPCPOD_REASON" >> told'
    shell.hpcpod("launch", str(shell.small("longer", rounds=1)), "--set", command)
    shell.finished("longer")
    run = shell.run("longer")
    shell.cluster.wait("the command of on_finish", (run.path / "told").exists, 60)
    rounds = run.board().rounds
    said = shell.hpcpod("extend", "longer", "--set", "stop.rounds=2")
    assert "stop.rounds 1 -> 2" in said and "longer: submitted " in said
    status = shell.finished("longer")
    assert (status["stop_reason"], status["rounds"]) == ("rounds", 2 * rounds)
    told = run.path / "told"
    shell.cluster.wait("it again", lambda: told.read_text() == "rounds\nrounds\n", 60)

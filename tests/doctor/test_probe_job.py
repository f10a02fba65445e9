"""The text of the probe's job: what a slot would ask for, wherever runs lie."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.doctor.probe_job import ProbeJob, nodes_here
from hpcpod.errors import UserError
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.launchers.slurm.squeue import Mark

CLUSTER = {
    "launcher": "slurm", "partition": "gpu", "account": "lab", "qos": "spot",
    "sbatch": {"constraint": "a100", "mem": "16G"}, "setup": ["module load cuda"],
}  # fmt: skip


def job(home: Path, kinds: tuple[str, ...] = ("pmix", "pmi2"), **cluster: object) -> ProbeJob:
    config = from_mapping(
        {
            "name": "x",
            "env": {"id": "CartPole-v1"},
            "resources": {"gpus_per_pod": 4, "cpus_per_pod": 8, "nodes_per_pod": 2},
            "pod": {"ranks": 4},
            "cluster": {**CLUSTER, **cluster},
        }
    )
    launcher = SlurmLauncher(home / "runs" / "x", config, python="python3")
    return ProbeJob(launcher, home, "link", kinds, 1.0, lambda text: None)


def test_it_asks_for_what_a_slot_would_on_each_of_two_nodes(tmp_path: Path) -> None:
    lines = job(tmp_path).script(2).splitlines()
    options = dict(line[10:].partition("=")[::2] for line in lines if line.startswith("#SBATCH"))
    assert options == {
        "account": "lab", "comment": "hpcpod:doctor", "constraint": "a100", "cpus-per-task": "2",
        "gpus-per-node": "2", "job-name": "hpcpod-doctor", "mem": "16G", "no-requeue": "",
        "nodes": "2", "ntasks": "2", "ntasks-per-node": "1", "output": "/dev/null",
        "partition": "gpu", "qos": "spot", "time": "10",
    }  # fmt: skip
    assert "module load cuda" in lines
    assert "for kind in pmix pmi2; do" in lines


def test_it_is_no_run_s_job() -> None:
    assert Mark.read("hpcpod:doctor") is None


@pytest.mark.parametrize("name", ["plain", "a 'b' \"c\"", "$(exit 3)", "-x;y & `z`", "%j\\n"])
def test_whatever_the_folder_is_called_it_is_a_word_of_the_shell(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    probe = job(home, kinds=())
    text = probe.script(1).replace("module load cuda", "printf seen; exit 0")
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (home / "job.log").read_text() == "seen"


def test_a_template_of_one_s_own_is_taken(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "doctor.sbatch").write_text("#!/bin/sh\n@{sbatch}\nmy-runner @{python} @{folder}\n")
    text = job(tmp_path, template=str(own)).script(1)
    assert text.endswith(f"\nmy-runner python3 {tmp_path}\n")
    (own / "doctor.sbatch").write_text("@{pyhton}\n")
    with pytest.raises(UserError, match=r"did you mean 'python'"):
        job(tmp_path, template=str(own)).script(1)


@pytest.mark.parametrize(
    ("env", "nodes"),
    [
        ({}, 0),
        ({"SLURM_JOB_NUM_NODES": "2"}, 0),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, 2),
        ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "3"}, 3),
    ],
)
def test_the_nodes_of_the_job_that_this_is(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], nodes: int
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert nodes_here() == nodes

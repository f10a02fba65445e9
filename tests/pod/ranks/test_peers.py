"""One agent trained by processes that torchrun or mpirun has started: no tournament, no slot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hpcpod

CONFIG = """\
name: peers
env: {id: CartPole-v1, num_envs: 4, backend: torch}
population: {algorithms: {ppo: 1}, pods: {min: 1, max: 1}}
round: {env_steps: 4096, episodes: 4}
agents: {ppo: {horizon: 32, hidden: 16}}
stop: {env_steps: 8192}
"""


def run(home: Path, *launcher: str, options: tuple[str, ...] = (), code: int = 0) -> str:
    (home / "peers.yaml").write_text(CONFIG)
    last = ("--keep", "last", "--save-to", "policy.h5", "--overwrite")
    words = [*launcher, "hpcpod", "train", "peers.yaml", *last, *options]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        words, cwd=home, env={**os.environ, **root, "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (code == 0), done.stdout
    return done.stdout


def test_torchrun_starts_ranks_that_train_one_agent(tmp_path: Path) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    said = run(tmp_path, *torchrun, "--nproc-per-node=2", "-m")
    assert said.count("policy: policy.h5") == 1
    assert hpcpod.load_policy(tmp_path / "policy.h5").about["env_steps"] == 8192


@pytest.mark.mpi
def test_mpirun_starts_ranks_that_train_one_agent(tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
        (pytest.fail if required else pytest.skip)("no mpirun here (Debian: openmpi-bin)")
    mpirun = ("mpirun", "-n", "2", "--oversubscribe", sys.executable, "-m")
    said = run(tmp_path, *mpirun, options=("--set", "pod.fusion.backend=mpi"))
    assert said.count("policy: policy.h5") == 1
    assert hpcpod.load_policy(tmp_path / "policy.h5").about["env_steps"] == 8192
    said = run(tmp_path, *mpirun, code=2)
    assert "MASTER_ADDR and MASTER_PORT, where they meet, is not set: use torchrun" in said
    assert "Traceback" not in said


def test_ranks_that_nobody_has_started_are_asked_for_in_one_sentence(tmp_path: Path) -> None:
    said = run(tmp_path, sys.executable, "-m", options=("--set", "pod.ranks=2"), code=2)
    assert "start them by srun, mpirun or torchrun" in said and "Traceback" not in said

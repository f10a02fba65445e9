"""Pods in containers on a real Slurm: a slot inside, ranks inside with their slot outside."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.slurm.containers import SAID, make_image, needed, runtime
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

every_runtime = pytest.mark.parametrize("name", ["apptainer", "pyxis"])


@pytest.fixture
def shell(start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path) -> Shell:
    return Shell(start_slurm(Options()), tmp_path, probe=False)


def site(shell: Shell, name: str) -> str:
    """A site's file for containers of this kind; scratch is on a disk of the node's own."""
    home = shell.home
    real = name == "apptainer" and shutil.which("apptainer")
    # Root may be refused capabilities that Apptainer wants for it.
    options = ["--userns", "--no-home"] if real else []
    path = home / "site.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "cluster": {
                    "launcher": "slurm",
                    "setup": runtime(name, home / "bin"),
                    "scratch": str(home / "local"),
                    "container": {
                        "runtime": name,
                        "image": str(make_image(home / "image.sqsh")),
                        "python": "/opt/python",
                        "mounts": needed(),
                        "options": options,
                    },
                }
            }
        )
    )
    return str(path)


@every_runtime
def test_a_slot_in_a_container_is_stopped_and_resumes(name: str, shell: Shell) -> None:
    path = shell.paced("inside", pods=1, steps=4_000, rounds=1)
    shell.hpcpod("launch", str(path), "--site", site(shell, name))
    run = shell.run("inside")
    resumes = (run.path / "pods").glob
    shell.cluster.wait("a checkpoint", lambda: any(resumes("*/resume/*.json")), 120)
    (element,) = (job for job in shell.jobs() if "_" in job)
    shell.cluster.run("scancel", "--signal=USR2", element)
    assert shell.finished("inside")["stop_reason"] == "rounds"
    logs = shell.logs("inside")
    assert re.search(r"goes on at \d+ env steps", logs), logs
    # In both of its lives, with what the script exports, whatever the image sets.
    said = re.findall(rf"{SAID}: OMP_NUM_THREADS=(\d+) TMPDIR=(\S+)", logs)
    assert [threads for threads, _ in said] == ["1", "1"]
    assert {Path(folder).parent for _, folder in said} == {shell.home / "local"}


def test_a_program_is_started_by_its_slot_inside(shell: Shell) -> None:
    path = shell.program("program", pods=1, steps=50, rounds=2)
    command = "program.command=[/opt/python, train.py]"  # the image's, and nowhere else
    shell.hpcpod("launch", str(path), "--site", site(shell, "apptainer"), "--set", command)
    assert shell.finished("program")["stop_reason"] == "rounds"
    assert re.search(rf"{SAID}.*\n.*from 0 with 50 to go", shell.logs("program"))


@every_runtime
def test_ranks_are_in_containers_and_their_slot_is_not(name: str, shell: Shell) -> None:
    path = shell.small("wide", pods=1, steps=4096, rounds=2)
    changes = (
        "pod.ranks=2", "resources.nodes_per_pod=2", "resources.cpus_per_pod=4",
        "pod.score_beside=true",
    )  # fmt: skip
    words = [word for change in changes for word in ("--set", change)]
    shell.hpcpod("launch", str(path), "--site", site(shell, name), *words)
    assert shell.finished("wide")["stop_reason"] == "rounds"
    logs = shell.logs("wide")
    assert "2 ranks exchange by gloo" in logs
    before, _, after = logs.partition("INFO slot ")
    assert SAID not in before
    assert after.count(SAID) == 3  # two ranks, and the process that scores

"""``hpcpod doctor`` on a real Slurm, whose nodes are all this machine."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.doctor.diagnoses import Said, doctor
from tests.slurm.containers import make_image, needed, runtime
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = pytest.mark.slurm

# Nodes of one machine share its memory, of which Open MPI's way of copying knows nothing.
BTL = 'cluster.setup=["export OMPI_MCA_btl=self,tcp"]'
LATER = "cluster.sbatch={begin: now+1hour}"

with_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"
)


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    yield slurm_cluster
    assert slurm_cluster.run("squeue", "-h", "-n", "hpcpod-doctor") == ""


def on(cluster: SlurmCluster, home: Path, *words: str) -> Said:
    """What the doctor says from the login node."""
    overrides = [word for setting in words for word in ("--set", setting)]
    return doctor(home, *overrides, env=cluster.env())


def test_a_cluster_that_is_well_has_rows_for_all_of_it(cluster: SlurmCluster, home: Path) -> None:
    said = on(cluster, home, BTL, "cluster.slots=3")
    assert said.code == 0
    assert said.groups() == ["run folder", "scheduler", "two nodes", "compute node"]
    assert said.row("run folder", "filesystem").then == "slots see it"
    version = cluster.run("scontrol", "--version").split()[1]
    assert said.row("scheduler", "Slurm").found == f"version {version}"
    assert said.row("scheduler", "partition").found == "low: UP, 4 nodes, time limit UNLIMITED"
    assert said.row("scheduler", "array size").then == "3 slots in one array"
    assert said.row("scheduler", "preemption").found == "preempt/partition_prio: REQUEUE here"
    assert said.row("scheduler", "requeue delay").found.endswith("after 6 s")
    nodes = said.row("two nodes", "nodes")
    assert (nodes.verdict, "are one machine" in nodes.found) == ("note", True)
    assert "each has one publisher" in said.row("two nodes", "publishing").found
    assert said.row("two nodes", "locks (flock)").found == "a lock is seen between nodes"
    assert sys.executable in said.row("compute node", "Python").found
    assert said.row("compute node", "torch").verdict == "ok"
    assert said.row("compute node", "sbatch").verdict == "ok"
    assert "the probe's job" in said.err


@with_mpi
@pytest.mark.mpi
def test_the_kind_of_mpi_that_works_is_named(cluster: SlurmCluster, home: Path) -> None:
    said = on(
        cluster, home, BTL, "pod.ranks=2", "pod.fusion.backend=mpi", "pod.fusion.mpi=pmi2",
        "resources.cpus_per_pod=2",
    )  # fmt: skip
    assert said.problems() == [("compute node", "MPI")]
    row = said.row("compute node", "MPI")
    assert row.found.startswith("two ranks meet by srun --mpi= pmix; not by pmi2")
    assert row.then.startswith("set pod.fusion.mpi to pmix")


def test_a_python_that_does_not_start_there(cluster: SlurmCluster, home: Path) -> None:
    said = on(cluster, home, 'cluster.setup=["export PYTHONHOME=/nonexistent"]')
    assert said.problems() == [("compute node", "probe's job")]
    row = said.row("compute node", "probe's job")
    assert row.found == "it ended; its log says: ModuleNotFoundError: No module named 'encodings'"
    assert "cluster.setup" in row.then


def test_a_setup_that_fails(cluster: SlurmCluster, home: Path) -> None:
    said = on(cluster, home, 'cluster.setup=["no_such_command", "exit 3"]')
    assert said.problems() == [("compute node", "probe's job")]
    row = said.row("compute node", "probe's job")
    assert row.found.startswith("it ended with exit code 3; its log says: ")
    assert row.found.endswith("no_such_command: command not found")


@pytest.mark.parametrize(
    ("container", "verdict", "words"),
    [
        (
            "{runtime: pyxis, image: /images/no.sqsh}",
            "note",
            "unrecognized option '--container-image",
        ),
        (
            "{runtime: apptainer, image: /images/no.sif}",
            "ok",
            "apptainer: No such file or directory",
        ),
    ],
)
def test_a_container_runtime_that_is_not_there(
    cluster: SlurmCluster, home: Path, container: str, verdict: str, words: str
) -> None:
    if "pyxis" not in container and shutil.which("apptainer", path=cluster.env()["PATH"]):
        pytest.skip("it is there")
    said = on(cluster, home, f"cluster.container={container}")
    assert said.problems() == [("compute node", "probe's job")]
    assert said.row("scheduler", "containers").verdict == verdict
    assert words in said.row("compute node", "probe's job").found


def test_a_coordinator_that_sbatch_does_not_take(cluster: SlurmCluster, home: Path) -> None:
    setting = "cluster.coordinator_partition=nosuch"
    said = on(cluster, home, setting)
    assert said.problems() == [("scheduler", "sbatch")]
    row = said.row("scheduler", "sbatch")
    assert "not the coordinator's: invalid partition specified: nosuch" in row.found
    assert "cluster.coordinator_partition" in row.then
    assert on(cluster, home, setting, "cluster.coordinator=false").problems() == []


def test_nodes_without_sbatch_and_without_gpus_that_torch_sees(
    cluster: SlurmCluster, home: Path
) -> None:
    (home / "bin").mkdir()
    for name in ("srun", "timeout"):
        command = shutil.which(name, path=cluster.env()["PATH"])
        assert command is not None
        (home / "bin" / name).symlink_to(command)
    setup = f'cluster.setup=["export PATH={home}/bin OMPI_MCA_btl=self,tcp"]'
    said = on(cluster, home, setup, "resources.gpus_per_pod=1")
    assert said.problems() == [("compute node", "GPUs"), ("compute node", "sbatch")]
    row = said.row("compute node", "GPUs")  # links to the null device, as Slurm's GPUs are here
    assert row.found.startswith("1 asked for; torch sees 0, CUDA_VISIBLE_DEVICES is '0'")
    row = said.row("compute node", "sbatch")
    assert row.found == "nodes may not submit: there is no sbatch here"
    assert "`hpcpod tick RUN`" in row.then


def test_a_job_that_does_not_start_is_cancelled(cluster: SlurmCluster, home: Path) -> None:
    said = doctor(home, "--set", LATER, "--patience", "2", env=cluster.env())
    assert said.code == 0
    row = said.row("compute node", "probe's job")
    assert row.verdict == "note"
    assert row.found == "it did not start within 2 s (BeginTime); it was cancelled"
    assert "--patience" in row.then
    assert said.groups() == ["run folder", "scheduler", "compute node"]


SLOW = """#!/bin/sh
# sbatch that tells the id of its job long after Slurm has it
said=$({real} "$@") || exit
case "$*" in *--test-only*) ;; *) sleep 2 ;; esac
echo "$said"
"""


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_no_job_and_no_file(
    cluster: SlurmCluster, home: Path, number: signal.Signals, slow: bool
) -> None:
    env = dict(cluster.env())
    if slow:
        (home / "bin").mkdir()
        real = shutil.which("sbatch", path=env["PATH"])
        (home / "bin" / "sbatch").write_text(SLOW.format(real=real))
        (home / "bin" / "sbatch").chmod(0o755)
        env["PATH"] = f"{home / 'bin'}:{env['PATH']}"
    before = list(home.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "hpcpod", "doctor", "--set", LATER],
        cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    queue = "squeue", "-h", "-n", "hpcpod-doctor"
    cluster.wait("the probe's job", lambda: cluster.run(*queue) != "")
    process.send_signal(number)
    process.send_signal(number)  # impatience does not keep it from clearing up
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert list(home.iterdir()) == before


def both_are_idle(cluster: SlurmCluster) -> bool:
    return cluster.run("sinfo", "-h", "-p", "low", "-o", "%D %t").split() == ["2", "idle"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount something over a folder")
def test_a_node_that_does_not_see_the_runs_is_named(home: Path) -> None:
    with SlurmCluster.started(Options(nodes=2, gpus=0)) as cluster:
        cluster.kill_daemon("dgx2")
        mount = f"mount -t tmpfs tmpfs {shlex.quote(str(home))}"
        cluster.start_daemon(
            "dgx2", "unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"
        )
        cluster.wait("dgx2 to be back", lambda: both_are_idle(cluster))
        said = on(cluster, home)
    assert said.problems() == [("compute node", "probe's job")]
    row = said.row("compute node", "probe's job")
    assert row.found.startswith("it ended; its log says: error: dgx2 does not see ")
    assert "see this folder" in row.then


def test_what_sbatch_refuses_is_told_in_its_words(cluster: SlurmCluster, home: Path) -> None:
    said = on(cluster, home, "cluster.partition=nowhere")
    assert said.problems() == [
        ("scheduler", "partition"), ("scheduler", "sbatch"), ("compute node", "probe's job")
    ]  # fmt: skip
    assert "Invalid partition name" in said.row("compute node", "probe's job").found


def test_without_a_job_only_this_machine_is_looked_at(cluster: SlurmCluster, home: Path) -> None:
    said = doctor(home, "--here", env=cluster.env())
    assert said.code == 0
    assert said.groups() == ["run folder", "scheduler", "two nodes", "this machine"]
    assert said.row("two nodes", "nodes").found == "not tried: --here"
    assert "submitting" not in said.err


@pytest.mark.parametrize("name", ["apptainer", "pyxis"])
def test_with_a_container_its_python_is_looked_at_and_sbatch_outside_of_it(
    cluster: SlurmCluster, home: Path, name: str
) -> None:
    real = name == "apptainer" and shutil.which("apptainer")
    container = {
        "runtime": name, "image": str(make_image(home / "image.sqsh")), "python": "/opt/python",
        "mounts": needed(), "options": ["--userns", "--no-home"] if real else [],
    }  # fmt: skip
    setup = [*runtime(name, home / "bin"), "export OMPI_MCA_btl=self,tcp"]
    site = {"cluster": {"launcher": "slurm", "setup": setup, "container": container}}
    (home / "site.yaml").write_text(yaml.safe_dump(site))
    said = doctor(home, "--site", "site.yaml", env=cluster.env())
    assert said.problems() == []
    assert "each has one publisher" in said.row("two nodes", "publishing").found
    assert said.row("compute node", "torch").verdict == "ok"
    assert said.row("compute node", "sbatch").found == "it takes a slot's script there"


def test_inside_a_job_of_two_nodes_its_own_are_tried_whatever_the_folder_s_name(
    cluster: SlurmCluster, home: Path
) -> None:
    place = home / "it's $(touch hit) `touch hit` & more\\"
    place.mkdir()
    said = doctor(
        home, "--set", BTL, "--runs", str(place),
        env=cluster.env(), under=["salloc", "--quiet", "-N2", "-n2"],
    )  # fmt: skip
    cluster.drained()
    assert "the probe runs in this job" in said.err
    assert "submitting" not in said.err
    assert "each has one publisher" in said.row("two nodes", "publishing").found
    assert said.row("compute node", "torch").verdict == "ok"
    assert list(place.iterdir()) == []
    assert not (home / "hit").exists()
    assert said.problems() == [("scheduler", "sbatch")]  # of the names of its logs
    assert "a backslash" in said.row("scheduler", "sbatch").found


def test_a_cluster_of_one_node_gives_no_two(
    start_slurm: Callable[[Options], SlurmCluster], home: Path
) -> None:
    said = on(start_slurm(Options(nodes=1, gpus=0)), home, BTL)
    assert said.code == 0
    row = said.row("two nodes", "nodes")
    assert row.verdict == "note"
    assert row.found.startswith("Slurm gives no two: ")
    assert said.row("compute node", "torch").verdict == "ok"
    if importlib.util.find_spec("mpi4py") is not None:
        assert said.row("compute node", "MPI").verdict == "ok"

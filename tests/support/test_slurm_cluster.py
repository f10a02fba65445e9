"""The fixture's own promises: it is quick, on loopback only, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import slurm_cluster as fixture
from tests.support.slurm_cluster import Options, SlurmCluster, reserved_ports

pytestmark = pytest.mark.slurm


@pytest.fixture(autouse=True)
def _slurm_is_here(slurm_cluster: SlurmCluster) -> None:
    """Skip, or fail, where Slurm is not installed."""


def test_nothing_is_left_of_a_cluster_not_even_a_job_that_ignores_sigterm() -> None:
    stubborn = "trap '' TERM; setsid sleep 300 & srun bash -c 'trap \"\" TERM; sleep 300' & wait"
    with SlurmCluster.started(Options(nodes=1, gpus=0, kill_seconds=2)) as cluster:
        cluster.run("sbatch", "-o", "/dev/null", "--wrap", stubborn)
        # slurmctld twice, slurmd, a slurmstepd for each step, and the script's own processes
        cluster.wait("the job's processes", lambda: len(cluster.processes()) >= 9)
        assert cluster.run("squeue", "-h", "-o", "%T").strip() == "RUNNING"
        before = cluster.processes()
    assert cluster.processes() == []
    assert not [pid for pid in before if _runs(pid)]
    assert not cluster.folder.exists()


def test_a_test_that_fails_leaves_nothing_either() -> None:
    with pytest.raises(ZeroDivisionError), SlurmCluster.started(Options(nodes=1)) as cluster:
        raise ZeroDivisionError
    assert cluster.processes() == []
    assert not cluster.folder.exists()


def test_everything_listens_on_loopback_only(slurm_cluster: SlurmCluster) -> None:
    slurm_cluster.run("sbatch", "-o", "/dev/null", "--wrap", "srun sleep 30")
    slurm_cluster.wait("a step", lambda: ".0" in slurm_cluster.run("squeue", "-h", "-s"))
    inodes = {inode for pid in slurm_cluster.processes() for inode in _sockets(pid)}
    addresses = {address for address, inode in _listening() if inode in inodes}
    slurm_cluster.drained()
    assert addresses == {"0100007F"}  # 127.0.0.1


def test_mpi_ranks_of_one_job_find_each_other_by_pmix(slurm_cluster: SlurmCluster) -> None:
    # Each rank prints what PMIx gave it.
    ranks = slurm_cluster.run(
        "srun", "-N4", "-n8", "--mpi=pmix", "bash", "-c", "echo $PMIX_RANK of $SLURM_NTASKS"
    )
    assert sorted(ranks.splitlines()) == [f"{rank} of 8" for rank in range(8)]


@pytest.fixture
def readable_copy() -> Iterator[Path]:
    """The fixture's module where any user can read it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(fixture.__file__, folder)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_start_one(readable_copy: Path) -> None:
    code = (
        "from slurm_cluster import *\n"
        "with SlurmCluster.started() as cluster:\n"
        "    print(cluster.run('srun', '-n2', 'id', '-un'))\n"
        "assert cluster.processes() == []\n"
    )
    pythons = [path for path in (sys.executable, "/usr/bin/python3") if _for_all(path)]
    if not pythons:
        pytest.skip("no Python here that another user may run")
    done = subprocess.run(
        ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", pythons[0], "-c", code],
        cwd=readable_copy,
        env={"PATH": os.defpath, "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["nobody", "nobody"], done.stderr


def test_it_is_up_in_seconds(slurm_cluster: SlurmCluster) -> None:
    assert slurm_cluster.start_seconds < 15


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _sockets(pid: int) -> list[str]:
    try:
        links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:
        return []
    return [link[8:-1] for link in links if link.startswith("socket:[")]


def _listening() -> list[tuple[str, str]]:
    """Address (in hexadecimal) and inode of each listening TCP socket."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.append((fields[1].partition(":")[0], fields[9]))
    return found


def _for_all(path: str) -> bool:
    real = Path(path).resolve()
    return all(part.stat().st_mode & 0o001 for part in (real, *real.parents))


def test_clusters_that_begin_at_once_have_no_port_in_common() -> None:
    with ThreadPoolExecutor(16) as pool:
        reserved = list(pool.map(reserved_ports, [20] * 64))
    taken = [port for _, first in reserved for port in range(first, first + 20)]
    for lock, _ in reserved:
        lock.close()
    assert len(set(taken)) == len(taken) == 64 * 20

"""A user's program as pods on a real Slurm: preempted, cancelled, and finished all the same."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.accounting import audit
from tests.chaos.observer import Observer
from tests.docs.pages import ROOT
from tests.program.programs import PYTHON, READ, gone
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

PROGRAMS = ROOT / "configs" / "programs"


@pytest.mark.parametrize("grace", [0, 5])
def test_a_preempted_program_comes_back_and_goes_on_from_its_last_save(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path, grace: int
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=grace)), tmp_path)
    shell.hpcpod("launch", str(shell.program("preempted", pods=1, steps=1500, rounds=1)))
    run = shell.run("preempted")
    shell.cluster.wait(
        "a save inside the round",
        lambda: run.folder.checkpoints.latest("p0001", 1) is not None, 120,
    )  # fmt: skip
    slot = next(iter(run.status().slots))
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 1")  # fmt: skip
    shell.finished("preempted", 300)
    assert "Restarts=1" in shell.cluster.run("scontrol", "show", "job", slot)
    log = shell.logs("preempted")
    begun = [(int(a), int(b)) for a, b in re.findall(r"from (\d+) with (\d+) to go", log)]
    assert begun[0] == (0, 1500)
    assert begun[1][0] > 0 and sum(begun[1]) == 1500, log
    board = run.board()
    assert board.env_steps == board.pods["p0001"].trained_steps == 1500
    assert not board.pods["p0001"].failure
    best = run.best()
    assert best is not None and best.fresh
    assert (run.path / "best" / "at").read_text() == "1500"
    assert all(gone(int(pid)) for pid in re.findall(r"pid (\d+)", log))


def test_stable_baselines3_wins_though_it_is_preempted_cancelled_and_left_without_a_coordinator(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    shell = Shell(slurm_cluster, tmp_path)
    told = {
        "program.command": json.dumps([sys.executable, str(PROGRAMS / "sb3.py")]),
        "program.defaults.n_steps": "32", "population": "{pods: {min: 1, max: 3}}",
        "round": "{env_steps: 1024, episodes: 16}",
        "stop": "{target: 195, minutes: 10, confirm_episodes: 64, finalists: 1}",
        "cluster": "{launcher: slurm, partition: low, minutes: 30, tick_seconds: 1, slots: 2}",
    }  # fmt: skip
    words = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    shell.hpcpod("launch", str(PROGRAMS / "sb3.yaml"), *words)
    run, cluster = shell.run("sb3-cartpole"), shell.cluster
    observer = Observer(run.path)
    cluster.wait("a round of each", lambda: run.board().reports >= 3, 120)
    cluster.wait("two slots at work", lambda: len(run.status().slots) == 2, 60)
    (killed,), (requeued, cancelled) = shell.coordinators("R"), list(run.status().slots)
    cluster.run("scancel", "--signal=KILL", "--full", killed)
    cluster.run("scontrol", "requeue", requeued)
    cluster.run("scancel", cancelled)
    cluster.wait("another", lambda: shell.coordinators("R") not in ([killed], []), 120)
    status = shell.finished("sb3-cartpole", 300)
    observer.close()
    assert (status["state"], status["stop_reason"]) == ("finished", "target")
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", requeued)
    board, best = run.board(), run.best()
    assert not [pod.failure for pod in board.pods.values() if pod.failure]
    assert board.env_steps == sum(pod.trained_steps for pod in board.pods.values())
    assert audit(observer.past).violations == []
    assert best is not None and best.fresh and best.mean > 195
    assert {path.name for path in (run.path / "best").iterdir()} >= {"model.zip", "normalizer.pkl"}


RANKS = (
    READ
    + """
import socket
rank = int(os.environ["SLURM_PROCID"])
if rank:
    (Path.cwd() / f"rank-{rank}").write_text(os.environ["SLURMD_NODENAME"])
    sys.exit(0)
end = time.monotonic() + 60
while not (Path.cwd() / "rank-1").exists() and time.monotonic() < end:
    time.sleep(0.05)
(save / "nodes").write_text(os.environ["SLURMD_NODENAME"] + " " + Path("rank-1").read_text())
(save / "session").write_text(str(session))
report(returns=[1.0] * 8)
"""
)
"""Two ranks, of which the first speaks with hpcpod."""


def test_a_programs_own_srun_has_all_nodes_of_its_pod(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    shell = Shell(slurm_cluster, tmp_path)
    path = shell.program("wide", pods=1, steps=10, rounds=1)
    (shell.home / "train.py").write_text(RANKS)
    words = json.dumps(["srun", "--nodes=2", "--ntasks=2", "--overlap", *PYTHON, "train.py"])
    shell.hpcpod(
        "launch", str(path), "--set", f"program.command={words}",
        "--set", "resources={nodes_per_pod: 2, cpus_per_pod: 2}", "--set", "program.scores=false",
    )  # fmt: skip
    shell.finished("wide", 180)
    run = shell.run("wide")
    assert not run.board().pods["p0001"].failure
    nodes = (run.path / "best" / "nodes").read_text().split()
    assert len(nodes) == len(set(nodes)) == 2
    # These nodes share one /tmp, and those of a cluster do not: the task lies where all read it.
    session = Path((run.path / "best" / "session").read_text())
    assert session.parent == run.path / "rendezvous" and not session.exists()

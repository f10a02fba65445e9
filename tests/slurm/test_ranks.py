"""Pods of several ranks on a real Slurm: over nodes, by gloo and MPI, preempted, killed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.program.programs import PYTHON, READ
from tests.slurm.runs import CARTPOLE, CONFIGS, PACED, Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

CONFIG = """\
name: {name}
env: {env}
population: {{pods: {{min: 1, max: {pods}}}, algorithms: {{ppo: 1}}, controls: 1}}
round: {{env_steps: {steps}, episodes: 8}}
agents: {{ppo: {{horizon: 32, epochs: 2, learning_rate: {{log_uniform: [1.0e-4, 1.0e-3]}}}}}}
pod:
  {{ranks: {ranks}, checkpoint_seconds: 1, fusion: {{backend: {backend}, mpi: {mpi}, seconds: 30}}}}
stop: {{rounds: {rounds}, minutes: 10, finalists: 1, confirm_episodes: 8}}
resources: {{nodes_per_pod: 2, cpus_per_pod: {ranks}}}
cluster: {{launcher: slurm, partition: low, minutes: 30, tick_seconds: 1, setup: ["{setup}"]}}
"""
# Slots of one machine share its memory as if they were nodes, of which Open MPI's way of copying
# knows nothing: ranks of one node then crash.
SETUP = "export OMPI_MCA_btl=self,tcp"

both_backends = pytest.mark.parametrize(
    "backend", ["gloo", pytest.param("mpi", marks=pytest.mark.mpi)]
)


@pytest.fixture
def start(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> Callable[[Options], Shell]:
    return lambda options: Shell(start_slurm(options), tmp_path, probe=False)


def config(shell: Shell, name: str, **words: object) -> str:
    given = {
        "env": CARTPOLE, "pods": 1, "ranks": 4, "steps": 4096, "rounds": 2, "backend": "gloo",
        "mpi": "pmix", "setup": SETUP, **words,
    }  # fmt: skip
    path = shell.home / f"{name}.yaml"
    path.write_text(CONFIG.format(name=name, **given))
    return str(path)


def ranks(shell: Shell) -> dict[int, int]:
    """Process ids of the training processes that run, by rank."""
    found: dict[int, int] = {}
    for pid in shell.cluster.processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            told = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        number = next((word[13:] for word in told if word.startswith(b"SLURM_PROCID=")), None)
        if b"--meeting" in words and b"python" in words[0] and number is not None:
            found.setdefault(int(number), pid)  # a rank's watcher has the same words, and is later
    return found


@both_backends
def test_four_ranks_over_two_nodes_train(backend: str, start: Callable[[Options], Shell]) -> None:
    shell = start(Options())
    shell.hpcpod("launch", config(shell, "spread", backend=backend))
    status = shell.finished("spread")
    assert status["stop_reason"] == "rounds", shell.logs("spread")
    assert f"4 ranks exchange by {backend}" in shell.logs("spread")
    scripts = (shell.home / "runs/spread/scripts").glob("*.sh")
    text = next(text for text in map(Path.read_text, scripts) if "hpcpod.slot" in text)
    for words in ("--nodes=2", "--ntasks=4", "--ntasks-per-node=2"):
        assert words in text
    best = shell.run("spread").best()
    assert best is not None
    said = shell.hpcpod("logs", "spread", "p0001", "--rank", "3", "-n", "1000")
    assert " rank 3 INFO p0001-00001-1: training begins" in said
    assert " rank 0 " not in said


@pytest.mark.parametrize(
    ("backend", "grace", "members"),
    [("gloo", 5, 4), pytest.param("mpi", 0, 2, marks=pytest.mark.mpi)],
)
def test_a_preempted_pod_resumes_all_ranks_where_they_were(
    backend: str, grace: int, members: int, start: Callable[[Options], Shell]
) -> None:
    shell = start(Options(grace_seconds=grace))
    words = {"backend": backend, "ranks": members, "env": PACED, "steps": 4_000 * members}
    path = config(shell, "torn", rounds=1, **words)
    shell.hpcpod("launch", path)
    run = shell.run("torn")

    def resumes() -> list[Path]:
        return list((run.path / "pods").glob("*/resume/*.json"))

    shell.cluster.wait("a checkpoint", lambda: bool(resumes()), 120)
    vip = ("-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 3")
    shell.cluster.run("sbatch", *vip)
    shell.cluster.wait("the pod to go", lambda: not ranks(shell), 60)
    status = shell.finished("torn")
    assert status["stop_reason"] == "rounds"
    logs = shell.logs("torn")
    goes_on = re.findall(r"rank (\d) INFO p0001-00001-\d goes on at (\d+) env steps", logs)
    assert {rank for rank, _ in goes_on} == set(map(str, range(members))), logs
    assert len({steps for _, steps in goes_on}) == 1
    # Without any grace a rank may be gone before its slot is told why: a failure, tried again.
    found = (p for p in (run.path / "reports").rglob("*.json") if "-00001-" in p.name)
    reports = sorted(found, key=lambda path: path.name)  # their folders have names of any order
    assert len(reports) <= (1 if grace else 2)
    assert '"failure":""' in reports[-1].read_text()


def test_a_tournament_of_pods_of_four_ranks_reaches_its_target(
    start: Callable[[Options], Shell],
) -> None:
    shell = start(Options())
    changes = {
        "cluster.launcher": "slurm", "cluster.partition": "low", "cluster.tick_seconds": "1",
        "cluster.setup": f"['{SETUP}']", "pod.ranks": "4", "resources.cpus_per_pod": "4",
        "resources.nodes_per_pod": "2", "population.pods.max": "2", "env.num_envs": "2",
        "env.id": "CartPole-v1", "round.env_steps": "4096",
        "stop.target": "200",  # nine times as good as chance: in two rounds
    }  # fmt: skip
    words = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    shell.hpcpod("launch", str(CONFIGS / "pendulum_fused.yaml"), *words)
    status = shell.finished("pendulum-fused", 500)
    assert status["stop_reason"] == "target", shell.logs("pendulum-fused")
    assert "4 ranks exchange by gloo" in shell.logs("pendulum-fused")


def test_a_killed_rank_costs_an_attempt_and_the_survivors_work_is_kept(
    start: Callable[[Options], Shell],
) -> None:
    shell = start(Options())
    shell.hpcpod("launch", config(shell, "robbed", env=PACED, steps=16_000, rounds=1))
    shell.cluster.wait("four ranks", lambda: len(ranks(shell)) == 4, 60)
    run = shell.run("robbed")
    shell.cluster.wait(
        "a checkpoint", lambda: bool(list((run.path / "pods").glob("*/resume/*.json"))), 120
    )
    began = time.monotonic()
    os.kill(ranks(shell)[0], signal.SIGKILL)
    shell.cluster.wait(
        "a survivor's checkpoint",
        lambda: bool(list((run.path / "pods").glob("*/resume/*-survivor-*.json"))), 60,
    )  # fmt: skip
    assert time.monotonic() - began < 60
    assert shell.finished("robbed")["stop_reason"] == "rounds"
    assert "another rank of this pod is gone" in shell.logs("robbed")


@pytest.mark.mpi
def test_the_wrong_pmi_is_said_with_the_one_to_try(start: Callable[[Options], Shell]) -> None:
    shell = start(Options())
    shell.hpcpod("launch", config(shell, "pmi", ranks=2, backend="mpi", mpi="none", rounds=1))
    shell.cluster.wait(
        "the sentence", lambda: "set pod.fusion.mpi to pmix" in shell.logs("pmi"), 120
    )
    shell.hpcpod("stop", "pmi", "--now")
    shell.cluster.drained(60)


def test_ranks_and_nodes_that_do_not_fit_are_refused(start: Callable[[Options], Shell]) -> None:
    shell = start(Options())
    path = config(shell, "odd")
    said = shell.hpcpod("launch", path, "--set", "resources.nodes_per_pod=3", code=2)
    assert "4 ranks can't be shared out evenly to 3 nodes" in said
    said = shell.hpcpod("launch", path, "--set", "resources.gpus_per_pod=8", code=2)
    assert "there are 4 ranks and resources.gpus_per_pod is 8" in said


def test_nodes_follow_from_the_cluster_s_shape(start: Callable[[Options], Shell]) -> None:
    shell = start(Options())
    free = ("--set", "resources.nodes_per_pod=null", "--set", "pod.ranks=null")
    said = shell.hpcpod(
        "launch", config(shell, "wide"), "--dry-run", *free, "--set", "resources.gpus_per_pod=16"
    )
    assert "#SBATCH --nodes=2" in said and "#SBATCH --gpus-per-node=8" in said
    assert "#SBATCH --ntasks-per-node=8" in said


SHARES = (
    READ
    + """
mine = Path.cwd() / ("gpu of " + task["pod"])
mine.write_text(os.environ["CUDA_VISIBLE_DEVICES"])
(save / "x").write_text("x")
end = time.monotonic() + 60
while len(list(Path.cwd().glob("gpu of *"))) < 2 and time.monotonic() < end:
    time.sleep(0.02)
report(steps=1, returns=[1.0] * 8)
"""
)
"""Waits for the other pod, which is on the same GPU."""


def test_slots_that_share_a_gpu_are_one_element_of_the_array_and_so_are_their_programs(
    start: Callable[[Options], Shell],
) -> None:
    shell = start(Options())
    (shell.home / "train.py").write_text(SHARES)
    path = shell.home / "shared.yaml"
    path.write_text(
        f"""\
name: shared
program: {{command: {json.dumps([*PYTHON, "train.py"])}}}
population: {{pods: {{min: 1, max: 2}}}}
round: {{env_steps: 1, episodes: 8}}
resources: {{gpus_per_pod: 1, pods_per_gpu: 2}}
stop: {{rounds: 1, minutes: 10}}
cluster: {{launcher: slurm, partition: low, minutes: 30, tick_seconds: 1}}
"""
    )
    shell.hpcpod("launch", str(path))
    assert shell.finished("shared")["stop_reason"] == "rounds"
    gpus = [each.read_text() for each in sorted(shell.home.glob("gpu of *"))]
    assert len(gpus) == 2 and gpus[0] == gpus[1] and gpus[0].isdigit()
    logs = shell.logs("shared")
    names = set(re.findall(r"slot (\d+_\d+\+\d) of job", logs))
    assert {name[-4:] for name in names} == {"_0+0", "_0+1"}, logs
    claims = (shell.home / "runs/shared/claims").rglob("p*")
    claimed = {slot for c in claims for slot in re.findall(r'"slot": ?"([^"]+)"', c.read_text())}
    assert claimed == names

"""Jobs that no node of a real Slurm could run: refused before submission, named where they wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcpod.launchers.slurm.demands import read_demand
from hpcpod.launchers.slurm.feasibility import ask_obstacles
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = pytest.mark.slurm

TWO_KINDS = Options(
    nodes=2,
    cpus=2,
    gpus=2,
    gpu_type="a100",
    features="fast,ib",
    memory=4096,
    extra=("PartitionName=short Nodes=dgx1 MaxTime=30 MaxNodes=1 State=UP",),
)


@pytest.fixture
def cluster(start_slurm: Callable[[Options], SlurmCluster]) -> SlurmCluster:
    return start_slurm(TWO_KINDS)


@pytest.fixture
def shell(cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("resources.cpus_per_pod=64", "64 cores on one node, but no node of partition low has more"
         " than 2"),
        ("cluster.partition=short", "40 minutes, but partition short allows no more than 30"),
    ],
)  # fmt: skip
def test_launch_refuses_it_and_leaves_nothing(setting: str, words: str, shell: Shell) -> None:
    config = shell.small("vain")
    words_of = ["launch", str(config), "--no-probe", "--set", "cluster.minutes=40"]
    said = shell.hpcpod(*words_of, "--set", setting, code=2)
    assert f"asks for {words}" in said
    assert "Traceback" not in said
    assert not (shell.home / "runs").exists()
    assert shell.jobs() == []


def test_validate_and_a_dry_run_say_it_too(shell: Shell) -> None:
    """Whatever state nodes are in: those that are down may come back."""
    config, kinds = (
        str(shell.small("vain")),
        ("resources.gpus_per_pod=1", "resources.gpu_type=h100"),
    )
    ask = ["--no-probe", *(word for kind in kinds for word in ("--set", kind))]
    no_h100 = "1 GPU of type h100 on one node, but no node of partition low has that, only a100"
    assert no_h100 in shell.hpcpod("validate", config, *ask, code=2)
    assert no_h100 in shell.hpcpod("launch", config, "--dry-run", *ask, code=2)
    try:
        for node in shell.cluster.nodes:
            shell.cluster.set_node(node, "drain")
        shell.hpcpod("validate", config, "--no-probe", "--set", "resources.cpus_per_pod=2")
    finally:
        for node in shell.cluster.nodes:
            shell.cluster.set_node(node, "resume")


def test_what_became_impossible_is_told_and_not_asked_for_again(shell: Shell) -> None:
    config = shell.small("later")
    cluster = shell.cluster
    shell.hpcpod("launch", str(config), "--no-probe", "--set", "cluster.partition=short",
                 "--set", "cluster.coordinator=false", "--set", "cluster.slots=1",
                 "--set", "stop.minutes=60")  # fmt: skip
    shell.hpcpod("pause", "later")
    cluster.drained(60)
    try:
        cluster.run("scontrol", "update", "PartitionName=short", "MaxTime=10")
        vain = "a slot asks for 30 minutes, but partition short allows no more than 10"
        said = shell.hpcpod("resume", "later", code=2)
        assert vain in said and "launch it anew, by another name" in said
        assert shell.status("later")["state"] == "paused"
        cluster.run("scontrol", "update", "PartitionName=short", "MaxTime=30")
        cluster.set_node("dgx1", "drain")
        shell.hpcpod("resume", "later")
        assert "can't ever start" not in shell.hpcpod("why", "later")
        cluster.run("scontrol", "update", "PartitionName=short", "MaxTime=10")
        said = shell.hpcpod("why", "later")
        assert f"1 slot waits, and can't ever start: cluster.minutes: {vain}" in said
        assert "the run keeps the settings that it was launched with" in said
        assert vain in shell.hpcpod("scale", "later", "2", code=2)
        shell.hpcpod("scale", "later", "1")
    finally:
        cluster.run("scontrol", "update", "PartitionName=short", "MaxTime=30")
        cluster.set_node("dgx1", "resume")
        shell.hpcpod("stop", "later", "--now")
        cluster.drained(60)


@pytest.mark.parametrize(
    ("options", "possible"),
    [
        (["-c2"], True),
        (["-c3"], False),
        (["-n4", "-N2", "--ntasks-per-node=2"], True),
        (["-n4", "-N2", "--ntasks-per-node=2", "-c2"], False),
        (["-N3"], False),
        (["-p", "short,low", "-t", "60"], True),
        (["-p", "short", "-t", "60"], False),
        (["-p", "short", "-N2"], False),
        (["--mem=4G"], True),
        (["--mem=5G"], False),
        (["--mem-per-cpu=3G", "-c2"], True),  # only cores are counted here
        (["--gpus-per-node=a100:2"], True),
        (["--gres=gpu:3"], False),
        (["--gpus-per-node=h100:1"], False),
        (["--constraint=fast&ib"], True),
        (["--constraint=fast&slow"], False),
    ],
)
def test_slurm_itself_agrees(options: list[str], possible: bool, cluster: SlurmCluster) -> None:
    """It starts what is called possible, and never starts what is not."""
    words = iter(options)
    lines = [f"{word} {next(words)}" if word in ("-p", "-t") else word for word in words]
    script = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines)
    (there,) = ask_obstacles(cluster.run, [read_demand(script)])
    assert (not there) is possible
    try:
        cluster.run("sbatch", "-o", "/dev/null", *options, "--wrap", "true")
    except RuntimeError:
        assert not possible
        return
    if possible:
        cluster.wait("its end", lambda: not cluster.run("squeue", "-h").strip())
        return
    reasons = ("Partition", "Nodes required", "BadConstraints", "Resources")

    def told() -> bool:
        assert not cluster.run("squeue", "-h", "-t", "R").strip()
        return any(word in cluster.run("squeue", "-h", "-o", "%R") for word in reasons)

    cluster.wait("a reason", told)
    cluster.run("scancel", "--me")
    cluster.wait("its end", lambda: not cluster.run("squeue", "-h").strip())

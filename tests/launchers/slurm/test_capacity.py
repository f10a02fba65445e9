"""Capacity of partitions, as read; and demands that no node of theirs could meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcpod.errors import LaunchError
from hpcpod.launchers.base import JobView
from hpcpod.launchers.slurm.capacity import Node, Partition, in_words, obstacles, read_capacity
from hpcpod.launchers.slurm.demands import Demand
from hpcpod.launchers.slurm.feasibility import foresee, sentences
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.records.records import Intent
from tests.launchers.runs import run_config

# As Slurm 22.05.8 prints them, shortened.
PARTITIONS = """\
PartitionName=short AllowGroups=ALL Default=NO QoS=N/A MaxNodes=1 MaxTime=00:30:00 MinNodes=0 \
MaxCPUsPerNode=UNLIMITED Nodes=n1 State=UP TotalCPUs=2 TotalNodes=1 MaxMemPerNode=UNLIMITED
PartitionName=mixed AllowGroups=ALL Default=YES QoS=N/A MaxNodes=UNLIMITED MaxTime=UNLIMITED \
MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] State=UP TotalCPUs=98 TotalNodes=4 MaxMemPerNode=UNLIMITED
PartitionName=capped Default=NO MaxNodes=UNLIMITED MaxTime=2-00:00:00 MaxCPUsPerNode=8 \
TotalNodes=1 MaxMemPerNode=4096
PartitionName=cloud Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED TotalNodes=9
"""
NODES = """\
CLUSTER: one
n1|short|2|64000|fast|gpu:a100:2
n1|mixed*|2|64000|fast|gpu:a100:2
n2|mixed*|32|256000|big,ib|(null)
n3|mixed*|32|256000|big,ib|(null)
n4|mixed*|16|128000|(null)|gpu:V100:4(S:0-1),shard:32
n5|capped|64|64000|(null)|(null)
n6|cloud|4|8000|(null)|(null)
"""
THERE = {partition.name: partition for partition in read_capacity(PARTITIONS, NODES)}


def test_partitions_have_their_limits_and_nodes() -> None:
    assert {name: (p.minutes, p.most_nodes) for name, p in THERE.items()} == {
        "short": (30.0, 1.0),
        "mixed": (float("inf"), float("inf")),
        "capped": (2880.0, float("inf")),
        "cloud": (float("inf"), float("inf")),
    }
    assert [name for name, p in THERE.items() if p.default] == ["mixed"]
    first, *_, last = THERE["mixed"].nodes
    assert first == Node(2, 64000, {"a100": 2}, frozenset({"fast"}))
    assert (last.gpus_of(""), last.gpus_of("v100"), last.gpus_of("a100")) == (4, 4, 0)
    assert THERE["capped"].nodes == (Node(8, 4096, {}, frozenset()),)
    # Of its nine nodes eight sleep, and are not shown: what they have is not known.
    assert [p.name for p in THERE.values() if not p.known] == ["cloud"]


def vain(*names: str, counts_memory: bool = False, **asked: Any) -> str:
    found = obstacles(Demand(**asked), [THERE[n] for n in names], counts_memory=counts_memory)
    return in_words("a slot", found, "ask for less") if found else ""


@pytest.mark.parametrize(
    "asked",
    [
        {"cpus": 32, "memory": 256000},
        {"cpus": 32, "nodes": 2, "features": frozenset({"big", "ib"})},
        {"gpus": {"v100": 4}, "cpus": 16},
        {"gpus": {"": 2}, "nodes": 2},
        {"minutes": 1e6},
        {"cpus": 32, "core_memory": 100_000},  # memory is not counted by core here
    ],
)
def test_what_some_node_could_give_is_possible(asked: dict[str, Any]) -> None:
    assert vain("mixed", **asked) == ""
    assert vain("short", "mixed", **asked) == ""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cpus": 64}, "resources.cpus_per_pod: a slot asks for 64 cores on one node, but no node"
         " of partition mixed has more than 32; ask for less"),
        ({"cpus": 32, "nodes": 3}, "asks for 32 cores on each of 3 nodes, but partition mixed has"
         " no 3 nodes with more than 16 each;"),
        ({"nodes": 5}, "resources.nodes_per_pod: a slot asks for 5 nodes, but partition mixed has"
         " no more than 4;"),
        ({"memory": 300 * 1024}, "cluster.sbatch: a slot asks for 300 GB on one node, but no node"
         " of partition mixed has more than 250 GB;"),
        ({"gpus": {"": 8}}, "resources.gpus_per_pod: a slot asks for 8 GPUs on one node, but no"
         " node of partition mixed has more than 4;"),
        ({"gpus": {"a100": 4}}, "4 GPUs of type a100 on one node, but no node of partition mixed"
         " has more than 2;"),
        ({"gpus": {"h100": 1}}, "1 GPU of type h100 on one node, but no node of partition mixed"
         " has that, only V100, a100;"),
        ({"features": frozenset({"turbo"})}, "for the feature turbo on one node, but no node of"
         " partition mixed has that, only big, fast, ib;"),
        # Each alone could be had.
        ({"gpus": {"a100": 1}, "cpus": 16}, "for 16 cores on one node, but no node of partition"
         " mixed with 1 GPU of type a100 has more than 2;"),
    ],
)  # fmt: skip
def test_what_no_node_could_give_is_said_with_both_numbers(
    asked: dict[str, Any], words: str
) -> None:
    assert words in vain("mixed", **asked)


def test_limits_of_a_partition_count_too() -> None:
    assert vain("short", minutes=30) == ""
    said = vain("short", minutes=240)
    assert "cluster.minutes: a slot asks for 240 minutes, but partition short allows" in said
    assert "no more than 30;" in said
    assert "for 2 nodes, but partition short gives one job no more than 1;" in vain(
        "short", nodes=2
    )
    assert "for 16 cores on one node, but no node of partition capped has more than 8;" in vain(
        "capped", cpus=16
    )
    assert "for 8 GB on one node, but no node of partition capped has more than 4 GB" in vain(
        "capped", memory=8192
    )
    said = vain("mixed", cpus=32, core_memory=16384, counts_memory=True)
    assert "for 512 GB on one node, but no node of partition mixed has more than 250 GB" in said


def test_of_several_partitions_each_says_what_it_lacks() -> None:
    assert vain("short", "capped", cpus=64) == (
        "resources.cpus_per_pod: a slot asks for 64 cores on one node, but no node of partition"
        " short has more than 2 and no node of partition capped has more than 8; ask for less"
    )
    assert "240 minutes, but partition short allows no more than 30; and for 9 cores on" in vain(
        "short", "capped", cpus=9, minutes=240
    )


def test_where_not_all_nodes_are_shown_nothing_is_said_of_them() -> None:
    assert vain("cloud", cpus=64, nodes=20, gpus={"h100": 8}) == ""
    empty = Partition("later", True, 60.0, 4.0, 0, ())
    assert obstacles(Demand(cpus=64), [empty]) == []
    assert obstacles(Demand(), []) == []


SETTINGS = "SelectTypeParameters = CR_CORE\nAccountingStorageType = {dbd}\nJobSubmitPlugins = {js}"


def slurm(dbd: str = "(null)", plugins: str = "(null)", qos: str = "") -> Callable[..., str]:
    """A Slurm with these partitions, by its commands."""

    def ask(*words: str) -> str:
        if words[0] == "sacctmgr":
            return qos
        if words[-1] == "config":
            return SETTINGS.format(dbd=dbd, js=plugins)
        return NODES if words[0] == "sinfo" else PARTITIONS

    return ask


def foreseen(*options: str, ask: Callable[..., str] | None = None, **given: Any) -> str:
    def script(intent: Intent) -> str:
        return "".join(f"#SBATCH --{option}\n" for option in options)

    return "\n".join(sentences(foresee(ask or slurm(), script, ["slots", "coordinator"], **given)))


def test_without_a_name_it_is_the_default_partition_unless_a_plugin_may_choose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SBATCH_PARTITION", raising=False)
    assert "64 cores on one node, but no node of partition mixed has" in foreseen(
        "cpus-per-task=64"
    )
    # One of the cloud's nodes might.
    assert foreseen("cpus-per-task=64", ask=slurm(plugins="lua")) == ""
    assert foreseen("cpus-per-task=64", "partition=short", ask=slurm(plugins="lua")) != ""
    monkeypatch.setenv("SBATCH_PARTITION", "short,capped")
    assert "short has more than 2 and no node of partition capped" in foreseen("cpus-per-task=64")


def test_what_is_not_known_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*words: str) -> str:
        raise LaunchError("nobody answers")

    assert foreseen("cpus-per-task=64", ask=silent) == ""
    assert foreseen("cpus-per-task=64", ask=lambda *words: "") == ""
    assert foreseen("cpus-per-task=64", "partition=elsewhere") == ""
    assert foreseen("cpus-per-task=64", "partition=short,elsewhere") == ""
    assert foreseen("cpus-per-task=64", "reservation=mine") == ""
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    assert foreseen("cpus-per-task=64") == ""


def test_a_qos_may_lift_the_limits_of_a_partition_and_none_of_its_nodes() -> None:
    lifting = slurm(
        "accounting_storage/slurmdbd", qos="normal|\nlong|DenyOnLimit,PartitionTimeLimit\n"
    )
    long = ("partition=short", "time=240")
    assert "240 minutes" in foreseen(*long, "qos=normal", ask=lifting)
    assert foreseen(*long, "qos=long", ask=lifting) == ""
    assert foreseen(*long, ask=lifting) == ""  # which QOS a user has by default is not asked
    assert "240 minutes" in foreseen(*long, "qos=long")  # nobody keeps account of any
    assert "64 cores" in foreseen("cpus-per-task=64", "qos=long", ask=lifting)


def test_of_jobs_that_wait_their_own_partition_and_time_count() -> None:
    job = JobView("7_0", "7_0", "slots", "pending", "t", partition="short", left=7200.0)
    assert "120 minutes, but partition short allows" in foreseen("time=10", waiting=[job])
    changed = JobView("7_0", "7_0", "slots", "pending", "t", partition="mixed", left=600.0)
    assert foreseen("time=240", "partition=short", waiting=[changed]) == ""
    assert foreseen("time=240", "partition=short", waiting=[]) == ""


def test_what_slots_and_coordinator_share_is_said_once() -> None:
    said = foreseen("time=240", "partition=short")
    assert said.count("240 minutes") == 1
    assert said.startswith("cluster.minutes: a slot asks for")


@given(st.text(alphabet="PartitionName=TNodesMax |*\n0123456789:-gpu(,)a"), st.text())
@example(partitions="", nodes="|||")  # cores that are no number
def test_any_text_is_read(partitions: str, nodes: str) -> None:
    there = read_capacity(f"PartitionName=a {partitions}", f"n|a|{nodes}\n{nodes}|a|1|1||")
    assert isinstance(obstacles(Demand(cpus=64, gpus={"x": 1}), there), list)


def test_a_launcher_asks_nothing_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert SlurmLauncher(tmp_path, run_config(cpus=4096)).impossible() == []

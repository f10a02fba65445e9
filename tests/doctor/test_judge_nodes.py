"""Judgements of machines, and of the end of the probe's job."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

import hpcpod
from hpcpod.config.loader import from_mapping
from hpcpod.doctor import judge_nodes
from hpcpod.doctor.finding import Finding
from hpcpod.doctor.probe_job import JobFacts
from hpcpod.doctor.probes import machine
from hpcpod.doctor.probes.disk_space import Mount, SpaceFacts
from hpcpod.doctor.probes.machine import MachineFacts, Scratch, Torch
from hpcpod.doctor.probes.node import NodeFacts
from hpcpod.doctor.probes.rank import RankFacts
from hpcpod.doctor.probes.submit import SubmitFacts

CUDA = Torch("", 3.0, "2.9.0", "12.8", 4)
MACHINE = MachineFacts(
    "n1", "x", "/opt/python", platform.python_version(), hpcpod.__version__, "ann", 1000, CUDA,
    "0,1,2,3", 4, True, ("apptainer",), (Scratch("/tmp", "xfs", 1e11),),
)  # fmt: skip
SPACE = SpaceFacts("/x", Mount("/x", "lustre", "srv:/x", "rw,flock"), 1e12, None, None)
NODE = NodeFacts(MACHINE, SPACE)
MET = tuple(RankFacts("pmix", 2, 3) for _ in range(2))
ALONE = tuple(RankFacts("pmi2", 1, 1) for _ in range(2))
DONE = JobFacts("done", "", 2, seen=(NODE,), ranks=(*MET, *ALONE), submit=SubmitFacts(""))


def asked(pod: dict[str, object] | None = None, refused: str = "") -> judge_nodes.Asked:
    config = from_mapping({"name": "x", "env": {"id": "X"}, "pod": pod or {}})
    return judge_nodes.Asked(config, 4, ("pmix", "pmi2"), refused)


def row(findings: list[Finding], probe: str) -> Finding:
    [found] = [finding for finding in findings if finding.probe == probe]
    return found


def about(facts: MachineFacts, gpus: int | None = 4, *, more: bool = False) -> list[Finding]:
    return machine.judge("here", [facts], gpus, more=more)


def test_nothing_is_wrong_with_a_good_node() -> None:
    assert {finding.verdict for finding in judge_nodes.judge(DONE, asked(), SPACE, {})} == {"ok"}


@pytest.mark.parametrize(
    ("torch", "visible", "gpus", "verdict", "then"),
    [
        (CUDA, "0,1,2,3", 4, "ok", "each rank takes one"),
        (CUDA, None, 2, "problem", "would share GPUs"),
        (replace(CUDA, gpus=0, cuda=""), "0", 1, "problem", "install a CUDA build"),
        (replace(CUDA, gpus=0), "0", 1, "problem", "check the driver"),
        (replace(CUDA, gpus=1), "0", 2, "problem", "Slurm did not give them"),
        (CUDA, None, 0, "ok", "train on the CPU"),
        (CUDA, None, None, "ok", ""),
    ],
)
def test_gpus_that_are_seen_are_held_against_those_asked_for(
    torch: Torch, visible: str | None, gpus: int | None, verdict: str, then: str
) -> None:
    found = row(about(replace(MACHINE, torch=torch, visible=visible), gpus), "GPUs")
    assert found.verdict == verdict
    assert then in found.then


def test_one_s_own_machine_may_have_more_gpus() -> None:
    assert row(about(MACHINE, 1, more=True), "GPUs").verdict == "ok"
    assert row(about(MACHINE, 5, more=True), "GPUs").verdict == "problem"


@pytest.mark.parametrize(
    ("changes", "probe", "verdict", "words"),
    [
        ({"hpcpod": "0.0.1"}, "Python", "problem", "with hpcpod 0.0.1"),
        ({"version": "3.10.0"}, "Python", "note", "3.10.0"),
        ({"torch": Torch("no libcuda", 1.0)}, "torch", "problem", "no libcuda"),
        ({"torch": replace(CUDA, seconds=90.0)}, "torch", "note", "in 90 s"),
        ({"user": ""}, "user", "note", "user 1000 has no name here"),
        ({"scratch": (Scratch("/tmp", "tmpfs", 1e6),)}, "/tmp", "note", "room for 1 MB"),
        ({"scratch": (Scratch("/tmp", "xfs", 0.0),)}, "/tmp", "note", "nothing can be written"),
    ],
)
def test_what_a_machine_lacks_has_a_row(
    changes: dict[str, object], probe: str, verdict: str, words: str
) -> None:
    found = row(about(replace(MACHINE, **changes)), probe)  # type: ignore[arg-type]
    assert found.verdict == verdict
    assert words in found.found


def test_machines_that_differ_have_a_row_each() -> None:
    other = replace(MACHINE, node="n2", torch=Torch("no libcuda", 1.0))
    found = machine.judge("nodes", [MACHINE, other], 4)
    told = [finding.found for finding in found if finding.probe == "torch"]
    assert told == ["n1: 2.9.0, imported in 3 s", "n2: it can't be imported: no libcuda"]
    assert row(found, "user").found == "1000 is ann"


@pytest.mark.parametrize(
    ("state", "why", "verdict"),
    [
        ("refused", "Invalid qos specification", "problem"),
        ("waiting", "it did not start within 300 s (Priority)", "note"),
        ("waiting", "PartitionNodeLimit", "problem"),
        ("broken", "it ended; its log says: no", "problem"),
    ],
)
def test_a_job_that_is_not_done_says_why(state: str, why: str, verdict: str) -> None:
    [found] = judge_nodes.judge(JobFacts(state, why, 2), asked(), SPACE, {})
    assert found.verdict == verdict
    assert why in found.found


def test_nodes_that_may_not_submit_name_who_ticks() -> None:
    facts = replace(DONE, submit=SubmitFacts("Access denied"))
    found = row(judge_nodes.judge(facts, asked(), SPACE, {}), "sbatch")
    assert (found.verdict, "Access denied" in found.found) == ("problem", True)
    assert "on the login node" in found.then
    enabled = {"ScronParameters": "enable"}
    assert "scrontab" in row(judge_nodes.judge(facts, asked(), SPACE, enabled), "sbatch").then
    refused_here_too = judge_nodes.judge(facts, asked(refused="Access denied"), SPACE, {})
    assert not [finding for finding in refused_here_too if finding.probe == "sbatch"]


@pytest.mark.parametrize(
    ("ranks", "pod", "verdict", "words"),
    [
        (MET, {}, "ok", "pod.fusion.mpi: pmix works"),
        (ALONE, {}, "note", "each is alone by pmi2"),
        (MET, {"fusion": {"mpi": "pmi2"}}, "note", "set pod.fusion.mpi to pmix"),
        (
            MET, {"ranks": 2, "fusion": {"mpi": "pmi2", "backend": "mpi"}}, "problem",
            "set pod.fusion.mpi to pmix",
        ),
        (MET[:1], {"ranks": 2, "fusion": {"backend": "mpi"}}, "problem", "do not meet"),
    ],
)  # fmt: skip
def test_which_kind_of_mpi_works(
    ranks: tuple[RankFacts, ...], pod: dict[str, object], verdict: str, words: str
) -> None:
    found = row(judge_nodes.judge(replace(DONE, ranks=ranks), asked(pod), SPACE, {}), "MPI")
    assert found.verdict == verdict
    assert words in f"{found.found} -> {found.then}"


def test_without_mpi4py_only_a_run_that_needs_it_is_hindered() -> None:
    facts = replace(DONE, seen=(replace(NODE, machine=replace(MACHINE, mpi4py=False)),))
    assert row(judge_nodes.judge(facts, asked(), SPACE, {}), "MPI").verdict == "ok"
    needs = asked({"ranks": 2, "fusion": {"backend": "mpi"}})
    assert row(judge_nodes.judge(facts, needs, SPACE, {}), "MPI").verdict == "problem"


def test_a_node_with_another_filesystem_is_told_of() -> None:
    here = replace(SPACE, mount=Mount("/", "ext4", "/dev/sda", "rw"))
    found = row(judge_nodes.judge(DONE, asked(), here, {}), "filesystem")
    assert found.verdict == "note"
    assert found.found == "the runs lie on lustre at /x, here on ext4"


def test_one_node_alone_leaves_two_unknown() -> None:
    facts = replace(DONE, nodes=1, one_only="Requested node configuration is not available")
    found = row(judge_nodes.judge(facts, asked(), SPACE, {}), "nodes")
    assert found.verdict == "note"
    assert "Requested node configuration" in found.found

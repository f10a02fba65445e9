"""Judgements of compute nodes by the facts of the probe's job: pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcpod.config.placement import ranks_of
from hpcpod.config.schema import RunConfig
from hpcpod.doctor import judge_pair
from hpcpod.doctor.finding import Finding, Verdict, decide
from hpcpod.doctor.probe_job import JobFacts
from hpcpod.doctor.probes import machine
from hpcpod.doctor.probes.disk_space import SpaceFacts
from hpcpod.doctor.probes.node import NodeFacts
from hpcpod.doctor.probes.rank import RankFacts, works

GROUP = "compute node"

_HOPELESS = re.compile(
    r"PartitionNodeLimit|PartitionTimeLimit|PartitionDown|PartitionInactive|BadConstraints"
    r"|InvalidAccount|InvalidQOS"
)
"""Reasons for waiting that no time cures."""


@dataclass(frozen=True)
class Asked:
    """The purpose of the job."""

    config: RunConfig
    gpus: int
    """Of a slot, on one node."""
    kinds: tuple[str, ...]
    """Values of ``srun --mpi=`` that were tried."""
    refused: str
    """Refusal of a slot's script by sbatch on the machine that submits; empty if it takes it."""


def judge(
    facts: JobFacts, asked: Asked, here: SpaceFacts, settings: Mapping[str, str]
) -> list[Finding]:
    """All rows of the two nodes and of what a slot has there.

    Args:
        facts: what the job has left.
        asked: what it was for.
        here: the runs' filesystem, as the machine that submits has it.
        settings: of ``scontrol show config``.
    """
    findings = _judge_two(facts)
    if facts.state != "done":
        findings.append(_judge_job(facts))
    if not facts.seen:
        return findings
    machines = [node.machine for node in facts.seen]
    findings += machine.judge(GROUP, machines, asked.gpus if facts.own or not asked.gpus else None)
    findings.append(_judge_filesystem(facts.seen[0], here))
    if facts.submit is not None and not asked.refused:
        findings.append(_judge_sbatch(facts.submit.refused, settings))
    findings.append(_judge_mpi(facts, asked.config, asked.kinds))
    return findings


def _judge_two(facts: JobFacts) -> list[Finding]:
    if facts.nodes == 2 and facts.pairs:
        return judge_pair.judge(facts.pairs)
    if facts.nodes == 1 and facts.state != "refused":
        found = f"Slurm gives no two: {facts.one_only}"
        then = "locks and names between nodes are unknown"
        return [Finding(judge_pair.GROUP, "nodes", "note", found, then)]
    return []


def _judge_job(facts: JobFacts) -> Finding:
    waiting = facts.state == "waiting"
    return decide(
        GROUP, "probe's job",
        (facts.state == "refused", "problem", f"sbatch refused it: {facts.why}",
         "change what the configuration asks for (cluster, resources)"),
        (waiting and _HOPELESS.search(facts.why), "problem", f"{facts.why}; it was cancelled",
         "slots would wait for ever, too: change what the configuration asks for"),
        (waiting, "note", f"{facts.why}; it was cancelled",
         "what nodes have is unknown: give it more time (--patience 3600), or ask for less"
         " (--set resources.gpus_per_pod=0)"),
        (True, "problem", facts.why,
         "slots would end so, too: check cluster.setup, and that nodes have this Python and see"
         " this folder"),
    )  # fmt: skip


def _judge_filesystem(node: NodeFacts, here: SpaceFacts) -> Finding:
    mount, probe = node.space.mount, "filesystem"
    if mount is None:
        return Finding(GROUP, probe, "note", "the runs' mount is not listed there", "")
    found = f"the runs lie on {mount.type} at {mount.point}"
    if here.mount is not None and here.mount.type != mount.type:
        found += f", here on {here.mount.type}"
        then = "whether it is one filesystem, two nodes show"
        return Finding(GROUP, probe, "note", found, then)
    return Finding(GROUP, probe, "ok", found, "as here")


def _judge_sbatch(refused: str, settings: Mapping[str, str]) -> Finding:
    scrontab = "enable" in settings.get("ScronParameters", "")  # off by default
    who = "scrontab, which is on here," if scrontab else "a person or cron on the login node"
    return decide(
        GROUP, "sbatch",
        (not refused, "ok", "it takes a slot's script there",
         "the coordinator is a job, and submits slots itself"),
        (True, "problem", f"nodes may not submit: {refused}",
         f"the coordinator can't replace slots: have {who} call `hpcpod tick RUN` every few"
         " minutes"),
    )  # fmt: skip


def _judge_mpi(facts: JobFacts, config: RunConfig, kinds: Sequence[str]) -> Finding:
    fusion = config.pod.fusion
    wanted = fusion.backend == "mpi" and ranks_of(config) > 1
    lacking: Verdict = "problem" if wanted else "note"
    installed = any(node.machine.mpi4py for node in facts.seen)
    working = [kind for kind in kinds if works(kind, facts.ranks)]
    failed = [kind for kind in kinds if kind not in working]
    found = f"two ranks meet by srun --mpi= {', '.join(working)}"
    found += f"; not by {', '.join(failed)}" if failed else ""
    none = "srun names no kinds of it" if installed else "mpi4py is not installed"
    untried = not installed or not kinds
    return decide(
        GROUP, "MPI",
        (untried and wanted, "problem", none, "install it, or set pod.fusion.backend to gloo"),
        (untried, "ok", none, "ranks meet by gloo or NCCL, which need none"),
        (fusion.mpi in working, "ok", found, f"pod.fusion.mpi: {fusion.mpi} works"),
        (working, lacking, found, f"set pod.fusion.mpi to {', '.join(working[:1])}, if"
         " pod.fusion.backend is to be mpi"),
        (True, lacking, "two ranks do not meet by srun --mpi="
         f" {', '.join(kinds)}{_rank_words(facts.ranks)}",
         "set pod.fusion.backend to gloo, or build mpi4py for the site's MPI"),
    )  # fmt: skip


def _rank_words(ranks: Sequence[RankFacts]) -> str:
    alone = sorted({rank.kind for rank in ranks if rank.size == 1})
    return f" (each is alone by {', '.join(alone)})" if alone else ""

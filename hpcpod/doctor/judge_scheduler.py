"""Judgements of the scheduler by Slurm's own settings: pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hpcpod.doctor.finding import Finding, Verdict
from hpcpod.doctor.scheduler import (
    GROUP,
    SHORT_KILL,
    SchedulerFacts,
    Wanted,
)
from hpcpod.launchers.slurm.scontrol import minutes_of, requeue_seconds
from hpcpod.launchers.slurm.squeue import NO_CLUSTER
from hpcpod.run.text import many


def judge(
    facts: SchedulerFacts, wanted: Wanted, refused: str | None, coordinator: str = ""
) -> list[Finding]:
    """All rows of the scheduler.

    Args:
        facts: what it says.
        wanted: what the run asks of it.
        refused: why sbatch does not take a slot's script; empty if it does; None: not tried.
        coordinator: why it does not take the coordinator's; empty if it does, or none is wanted.
    """
    findings = [
        _judge_version(facts),
        _judge_partition(facts.partition, wanted),
        _judge_script(refused, coordinator),
        _judge_array(facts.settings, wanted),
        _judge_jobs(facts.settings, wanted),
        *_judge_accounts(facts, wanted),
        _judge_preemption(facts, wanted.qos),
        _judge_grace(facts),
        _judge_delay(facts.settings),
        _judge_pyxis(facts, wanted.container),
    ]
    return [finding for finding in findings if finding is not None]


def absent(facts: SchedulerFacts | None, launcher: str | None) -> Finding:
    """The one row where there is no Slurm, or none that answers, or it is not to be asked.

    Args:
        facts: its error; None if its commands are not here, or not asked.
        launcher: ``local``, or what the run needs; None: whatever there is.
    """
    found = "Slurm's commands are not here" if facts is None else f"no answer: {facts.error}"
    if facts is not None and facts.error == NO_CLUSTER:
        found = facts.error
    if launcher == "local":
        found = "it is not asked (--cluster local)"
    if launcher in (None, "local"):
        return Finding(
            GROUP, "Slurm", "ok" if facts is None else "note", found,
            "slots are processes of this machine (cluster.launcher: local)",
        )  # fmt: skip
    return Finding(
        GROUP, "Slurm", "problem", found,
        f"cluster.launcher is {launcher}: run hpcpod where Slurm answers, or set it to local",
    )  # fmt: skip


def _judge_version(facts: SchedulerFacts) -> Finding:
    version = facts.settings.get("SLURM_VERSION", "unknown")
    return Finding(GROUP, "Slurm", "ok", f"version {version}", "slots are elements of job arrays")


def _judge_partition(partition: Mapping[str, str], wanted: Wanted) -> Finding:
    name, probe = partition.get("PartitionName", ""), "partition"
    if not name and wanted.partition is None:
        return Finding(
            GROUP, probe, "problem", "there is no default partition",
            "name one: cluster.partition (sinfo -s lists them)",
        )  # fmt: skip
    if not name:
        return Finding(
            GROUP, probe, "problem", f"there is no partition {wanted.partition}",
            "set cluster.partition to another one (sinfo -s lists them)",
        )  # fmt: skip
    state, limit = partition.get("State", "UP"), partition.get("MaxTime", "UNLIMITED")
    nodes = partition.get("TotalNodes", "?")
    found = f"{name}: {state}, {nodes} nodes, time limit {limit}"
    if state != "UP":
        return Finding(GROUP, probe, "problem", found, "nothing starts there: choose another one")
    if minutes_of(limit) < wanted.minutes:
        return Finding(
            GROUP, probe, "problem", found,
            f"a slot asks for {wanted.minutes} minutes: set cluster.minutes to at most"
            f" {math.floor(minutes_of(limit))}",
        )  # fmt: skip
    most = partition.get("MaxNodes", "UNLIMITED")
    if most.isdecimal() and int(most) < wanted.nodes:
        return Finding(
            GROUP, probe, "problem", f"{found}, at most {many(int(most), 'node')} for a job",
            f"a slot asks for {wanted.nodes}: set resources.nodes_per_pod or gpus_per_pod lower",
        )  # fmt: skip
    return Finding(
        GROUP, probe, "ok", found, f"slots ask for {wanted.minutes} minutes, and come back after"
    )


def _judge_script(refused: str | None, coordinator: str) -> Finding | None:
    if refused is None:
        return None
    if refused == "" and coordinator:
        return Finding(
            GROUP, "sbatch", "problem",
            f"sbatch --test-only takes a slot's script, but not the coordinator's: {coordinator}",
            "set cluster.coordinator_partition to another, which takes a job of one core",
        )  # fmt: skip
    if refused == "":
        return Finding(
            GROUP, "sbatch", "ok", "it takes a slot's script here",
            "`hpcpod launch` submits from here",
        )  # fmt: skip
    return Finding(
        GROUP, "sbatch", "problem", f"sbatch --test-only refuses a slot's script: {refused}",
        "change what the configuration asks for (cluster, resources), unless nodes are only down"
        " for now (sinfo)",
    )  # fmt: skip


def _judge_array(settings: Mapping[str, str], wanted: Wanted) -> Finding:
    found = f"MaxArraySize is {settings.get('MaxArraySize', 'unknown')}"
    arrays = math.ceil(wanted.slots / in_one_array(settings, wanted.slots))
    several = "one array" if arrays == 1 else f"{arrays} arrays"
    return Finding(GROUP, "array size", "ok", found, f"{many(wanted.slots, 'slot')} in {several}")


def in_one_array(settings: Mapping[str, str], slots: int) -> int:
    """The number of slots, of so many, that a run asks for by one array."""
    most = settings.get("MaxArraySize", "")
    return min(slots, int(most)) if most.isdecimal() and int(most) > 0 else slots


def _judge_jobs(settings: Mapping[str, str], wanted: Wanted) -> Finding:
    most = settings.get("MaxJobCount", "")
    found = f"MaxJobCount is {most or 'unknown'}, of all users"
    fits = not most.isdecimal() or wanted.slots < int(most)
    return Finding(
        GROUP, "jobs", "ok" if fits else "problem", found,
        "" if fits else f"set cluster.slots below it: the run wants {wanted.slots}",
    )  # fmt: skip


def _judge_accounts(facts: SchedulerFacts, wanted: Wanted) -> list[Finding]:
    """Limits of this user's account and QOS, where Slurm holds users to them."""
    probe = "account limits"
    if facts.accounts is None:
        then = "sbatch has the last word, and its words are shown"
        return [Finding(GROUP, probe, "ok", "none is known", then)]
    if facts.settings.get("AccountingStorageEnforce", "none") in ("none", "0"):
        return [Finding(GROUP, probe, "ok", "accounts are kept, and no limit is enforced", "")]
    account = wanted.account or facts.account
    partition = facts.partition.get("PartitionName")
    rows = [row for row in facts.accounts if row["account"] == account]
    rows = [row for row in rows if row["partition"] in ("", partition)]
    if not rows:
        known = ", ".join(sorted({row["account"] for row in facts.accounts})) or "none"
        found = f"you have no account {account or 'here'} (yours: {known})"
        then = "set cluster.account to one of yours, or ask for one"
        return [Finding(GROUP, probe, "problem", found, then)]
    quality = wanted.qos or rows[0]["defaultqos"]
    qos = [row for row in facts.qos if row["name"] == quality]
    if wanted.qos and not qos:
        known = ", ".join(row["name"] for row in facts.qos) or "none"
        found = f"there is no QOS {wanted.qos} (known: {known})"
        return [Finding(GROUP, probe, "problem", found, "set cluster.qos to another one")]
    submit = min(_limits(rows, "maxsubmit") + _limits(qos, "maxsubmitpu"), default=None)
    running = min(_limits(rows, "maxjobs") + _limits(qos, "maxjobspu"), default=None)
    wall = min((minutes_of(row["maxwall"]) for row in qos if row["maxwall"]), default=math.inf)
    return [_judge_limits(submit, running, wall, wanted)]


def _limits(rows: list[Mapping[str, str]], column: str) -> list[int]:
    return [int(row[column]) for row in rows if row[column].isdecimal()]


def _judge_limits(submit: int | None, running: int | None, wall: float, wanted: Wanted) -> Finding:
    found = f"at most {'any number of' if submit is None else submit} jobs in the queue"
    found += f", {'any number' if running is None else running} at once"
    verdict: Verdict = "ok"
    then = ""
    if submit is not None and wanted.slots + 1 > submit:
        verdict = "problem"
        then = (
            f"sbatch would refuse {many(wanted.slots, 'slot')} and a coordinator: set"
            f" cluster.slots to at most {max(1, submit - 1)}"
        )
    elif wall < wanted.minutes:
        verdict, found = "problem", f"the QOS allows {wall:g} minutes"
        then = f"set cluster.minutes to at most {math.floor(wall)}"
    elif running is not None and wanted.slots + 1 > running:
        verdict, then = "note", "the other slots wait in the queue"
    return Finding(GROUP, "account limits", verdict, found, then)


def preempt_mode(facts: SchedulerFacts, qos: str | None) -> str:
    """The fate of a preempted job: ``REQUEUE``, ``CANCEL``, ``SUSPEND`` or ``OFF``."""
    kind = facts.settings.get("PreemptType", "preempt/none")
    if kind.endswith("none"):
        return "OFF"
    modes = facts.settings.get("PreemptMode", "OFF")
    if kind.endswith("partition_prio"):
        modes = facts.partition.get("PreemptMode", modes)
    elif kind.endswith("qos"):
        own = [row["preemptmode"] for row in facts.qos if row["name"] == qos]
        modes = own[0] if own and own[0] not in ("", "cluster") else modes
    named = [mode for mode in re.split(r"[,\s]+", modes.upper()) if mode not in ("GANG", "WITHIN")]
    return named[0] if named else "OFF"


def _judge_preemption(facts: SchedulerFacts, qos: str | None) -> Finding:
    mode = preempt_mode(facts, qos)
    kind = facts.settings.get("PreemptType", "preempt/none")
    found = f"{kind}: {mode} here"
    verdict: Verdict = "ok"
    if mode == "OFF":
        then = "slots are not preempted here"
    elif mode == "REQUEUE":
        then = "a preempted slot comes back by itself and goes on with its round"
    elif mode == "CANCEL":
        verdict = "note"
        then = "a preempted slot is not requeued: the coordinator submits another one for it"
    else:
        verdict = "note"
        then = (
            "a preempted slot stands still with all its memory, and its order waits: where there"
            " is one, take a partition that requeues"
        )
    if facts.settings.get("JobRequeue") == "0":
        found += ", JobRequeue=0"
        then += "; slots ask for --requeue themselves"
    return Finding(GROUP, "preemption", verdict, found, then)


def _judge_grace(facts: SchedulerFacts) -> Finding:
    grace = facts.partition.get("GraceTime", "0")
    kill = re.match(r"\d+", facts.settings.get("KillWait", "30"))
    seconds = int(kill[0]) if kill else 30
    user = "preempt_send_user_signal" in facts.settings.get("SlurmctldParameters", "")
    found = f"GraceTime {grace} s, KillWait {seconds} s"
    found += ", and the slots' own signal first" if user else ""
    left = seconds + (int(grace) if grace.isdecimal() else 0)
    if left >= SHORT_KILL:
        return Finding(
            GROUP, "grace", "ok", found,
            f"a slot that is ended has {left} s to save what it has trained",
        )  # fmt: skip
    return Finding(
        GROUP, "grace", "note", found,
        f"a slot that is ended has {left} s to save: large agents go back to their last checkpoint"
        " (pod.checkpoint_seconds)",
    )  # fmt: skip


def _judge_delay(settings: Mapping[str, str]) -> Finding:
    delay = requeue_seconds(settings)
    return Finding(
        GROUP, "requeue delay", "ok" if delay <= 30 else "note",
        f"a requeued job may start again after {delay:g} s",
        "" if delay <= 30 else "a slot that comes back waits for so long first",
    )  # fmt: skip


def _judge_pyxis(facts: SchedulerFacts, container: str | None) -> Finding:
    if facts.pyxis:
        return Finding(
            GROUP, "containers", "ok", "srun has --container-image (pyxis)",
            "cluster.container may use it (docs/slurm.md)",
        )  # fmt: skip
    found = "srun has no --container-image"
    if container == "pyxis":
        return Finding(
            GROUP, "containers", "note", f"{found} here",
            "cluster.container.runtime is pyxis: a slot starts where its node's srun has it, as the"
            " probe's job tells",
        )  # fmt: skip
    return Finding(GROUP, "containers", "ok", found, "none is needed")

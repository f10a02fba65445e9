"""Judgements of the scheduler by Slurm's own settings: pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hpcpod.doctor.finding import Finding, Verdict, decide
from hpcpod.doctor.scheduler import GROUP, SHORT_KILL, SchedulerFacts, Wanted
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
    version = facts.settings.get("SLURM_VERSION", "unknown")
    return [
        Finding(GROUP, "Slurm", "ok", f"version {version}", "slots are elements of job arrays"),
        _judge_partition(facts.partition, wanted),
        *([] if refused is None else [_judge_script(refused, coordinator)]),
        _judge_array(facts.settings, wanted),
        _judge_jobs(facts.settings, wanted),
        _judge_accounts(facts, wanted),
        _judge_preemption(facts, wanted.qos),
        _judge_grace(facts),
        _judge_delay(facts.settings),
        _judge_pyxis(facts.pyxis, wanted.container),
    ]


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
    here = "slots are processes of this machine (cluster.launcher: local)"
    return decide(
        GROUP, "Slurm",
        (launcher not in (None, "local"), "problem", found,
         f"cluster.launcher is {launcher}: run hpcpod where Slurm answers, or set it to local"),
        (facts is None, "ok", found, here),
        (True, "note", found, here),
    )  # fmt: skip


def _judge_partition(partition: Mapping[str, str], wanted: Wanted) -> Finding:
    name, most = partition.get("PartitionName", ""), partition.get("MaxNodes", "UNLIMITED")
    state, limit = partition.get("State", "UP"), partition.get("MaxTime", "UNLIMITED")
    found = f"{name}: {state}, {partition.get('TotalNodes', '?')} nodes, time limit {limit}"
    most_nodes = int(most) if most.isdecimal() else wanted.nodes
    minutes = int(min(minutes_of(limit), wanted.minutes))
    return decide(
        GROUP, "partition",
        (not name and wanted.partition is None, "problem", "there is no default partition",
         "name one: cluster.partition (sinfo -s lists them)"),
        (not name, "problem", f"there is no partition {wanted.partition}",
         "set cluster.partition to another one (sinfo -s lists them)"),
        (state != "UP", "problem", found, "nothing starts there: choose another one"),
        (minutes_of(limit) < wanted.minutes, "problem", found,
         f"a slot asks for {wanted.minutes} minutes: set cluster.minutes to at most {minutes}"),
        (most_nodes < wanted.nodes, "problem",
         f"{found}, at most {many(most_nodes, 'node')} for a job",
         f"a slot asks for {wanted.nodes}: set resources.nodes_per_pod or gpus_per_pod lower"),
        (True, "ok", found, f"slots ask for {wanted.minutes} minutes, and come back after"),
    )  # fmt: skip


def _judge_script(refused: str, coordinator: str) -> Finding:
    return decide(
        GROUP, "sbatch",
        (refused, "problem", f"sbatch --test-only refuses a slot's script: {refused}",
         "change what the configuration asks for (cluster, resources), unless nodes are only down"
         " for now (sinfo)"),
        (coordinator, "problem",
         f"sbatch --test-only takes a slot's script, but not the coordinator's: {coordinator}",
         "set cluster.coordinator_partition to another, which takes a job of one core"),
        (True, "ok", "it takes a slot's script here", "`hpcpod launch` submits from here"),
    )  # fmt: skip


def _judge_array(settings: Mapping[str, str], wanted: Wanted) -> Finding:
    # 1001 by default: indices end at 1000
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
    return decide(
        GROUP, "jobs",
        # elements that wait count, too
        (not most.isdecimal() or wanted.slots < int(most), "ok", found, ""),
        (True, "problem", found, f"set cluster.slots below it: the run wants {wanted.slots}"),
    )  # fmt: skip


def _judge_accounts(facts: SchedulerFacts, wanted: Wanted) -> Finding:
    """Limits of this user's account and QOS, where Slurm holds users to them."""
    probe = "account limits"
    if facts.accounts is None:
        then = "sbatch has the last word, and its words are shown"
        return Finding(GROUP, probe, "ok", "none is known", then)
    if facts.settings.get("AccountingStorageEnforce", "none") in ("none", "0"):
        return Finding(GROUP, probe, "ok", "accounts are kept, and no limit is enforced", "")
    account, partition = wanted.account or facts.account, facts.partition.get("PartitionName")
    rows = [
        row for row in facts.accounts
        if row["account"] == account and row["partition"] in ("", partition)
    ]  # fmt: skip
    quality = wanted.qos or next((row["defaultqos"] for row in rows), "")
    qos = [row for row in facts.qos if row["name"] == quality]
    own = ", ".join(sorted({row["account"] for row in facts.accounts})) or "none"
    known = ", ".join(row["name"] for row in facts.qos) or "none"
    submit = min(_limits(rows, "maxsubmit") + _limits(qos, "maxsubmitpu"), default=math.inf)
    running = min(_limits(rows, "maxjobs") + _limits(qos, "maxjobspu"), default=math.inf)
    wall = min((minutes_of(row["maxwall"]) for row in qos if row["maxwall"]), default=math.inf)
    found = f"at most {'any number of' if submit == math.inf else submit} jobs in the queue"
    found += f", {'any number' if running == math.inf else running} at once"
    jobs = wanted.slots + 1  # the coordinator is one, too
    return decide(
        GROUP, probe,
        (not rows, "problem", f"you have no account {account or 'here'} (yours: {own})",
         "set cluster.account to one of yours, or ask for one"),
        (wanted.qos and not qos, "problem", f"there is no QOS {wanted.qos} (known: {known})",
         "set cluster.qos to another one"),
        (jobs > submit, "problem", found,
         f"sbatch would refuse {many(wanted.slots, 'slot')} and a coordinator: set cluster.slots"
         f" to at most {max(1, submit - 1)}"),
        (wall < wanted.minutes, "problem", f"the QOS allows {wall:g} minutes",
         f"set cluster.minutes to at most {int(min(wall, wanted.minutes))}"),
        (jobs > running, "note", found, "the other slots wait in the queue"),
        (True, "ok", found, ""),
    )  # fmt: skip


def _limits(rows: list[Mapping[str, str]], column: str) -> list[int]:
    return [int(row[column]) for row in rows if row[column].isdecimal()]


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
    # GANG and WITHIN stand beside a mode
    named = [mode for mode in re.split(r"[,\s]+", modes.upper()) if mode not in ("GANG", "WITHIN")]
    return named[0] if named else "OFF"


_PREEMPTED: dict[str, tuple[Verdict, str]] = {
    "OFF": ("ok", "slots are not preempted here"),
    "REQUEUE": ("ok", "a preempted slot comes back by itself and goes on with its round"),
    "CANCEL": (  # --requeue does nothing then
        "note",
        "a preempted slot is not requeued: the coordinator submits another one for it",
    ),
}
_SUSPENDED: tuple[Verdict, str] = (
    "note",
    "a preempted slot stands still with all its memory, and its order waits: where there is one,"
    " take a partition that requeues",
)


def _judge_preemption(facts: SchedulerFacts, qos: str | None) -> Finding:
    mode = preempt_mode(facts, qos)
    found = f"{facts.settings.get('PreemptType', 'preempt/none')}: {mode} here"
    verdict, then = _PREEMPTED.get(mode, _SUSPENDED)
    if facts.settings.get("JobRequeue") == "0":
        found += ", JobRequeue=0"
        then += "; slots ask for --requeue themselves"
    return Finding(GROUP, "preemption", verdict, found, then)


def _judge_grace(facts: SchedulerFacts) -> Finding:
    grace = facts.partition.get("GraceTime", "0")
    kill = re.match(r"\d+", facts.settings.get("KillWait", "30"))
    seconds = int(kill[0]) if kill else 30
    found = f"GraceTime {grace} s, KillWait {seconds} s"
    if "preempt_send_user_signal" in facts.settings.get("SlurmctldParameters", ""):
        found += ", and the slots' own signal first"
    # Before 24.05 a job that exits within GraceTime is FAILED, --requeue or not.
    left = seconds + (int(grace) if grace.isdecimal() else 0)
    return decide(
        GROUP, "grace",
        (left >= SHORT_KILL, "ok", found,
         f"a slot that is ended has {left} s to save what it has trained"),
        (True, "note", found,
         f"a slot that is ended has {left} s to save: large agents go back to their last checkpoint"
         " (pod.checkpoint_seconds)"),
    )  # fmt: skip


def _judge_delay(settings: Mapping[str, str]) -> Finding:
    delay = requeue_seconds(settings)  # 121 s by default; ticks shorten it
    found = f"a requeued job may start again after {delay:g} s"
    return decide(
        GROUP, "requeue delay",
        (delay <= 30, "ok", found, ""),
        (True, "note", found, "a slot that comes back waits for so long first"),
    )  # fmt: skip


def _judge_pyxis(pyxis: bool, container: str | None) -> Finding:
    return decide(
        GROUP, "containers",
        (pyxis, "ok", "srun has --container-image (pyxis)",
         "cluster.container may use it (docs/slurm.md)"),
        (container == "pyxis", "note", "srun has no --container-image here",
         "cluster.container.runtime is pyxis: a slot starts where its node's srun has it, as the"
         " probe's job tells"),
        (True, "ok", "srun has no --container-image", "none is needed"),
    )  # fmt: skip

"""Reasons of a job to wait: Slurm's words, their meaning, and advice.

The words are those of Slurm's squeue manual and of its own table of reasons, from 20.11 to 26.05.
A word that is not here is shown as Slurm has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """A reason in words."""

    reason: str
    """Slurm's own word, with what it says beside it."""
    meaning: str
    """Meaning of it: a clause without a full stop."""
    advice: str
    """Advice to the user; empty if there is none."""
    hopeless: bool
    """The job won't start until a user or an administrator has done something about it."""


_WAIT = "wait; with fewer GPUs, nodes or minutes for a slot it may fit in sooner"
_ASK_SITE = "ask the site's support"
_AGAIN = "cancel it (`scancel`), and the next tick submits another"
_RELEASE = "see the slot's log, and let it go on with `scontrol release`"
_LESS = "ask for less: resources.gpus_per_pod, resources.cpus_per_pod, resources.nodes_per_pod"
_SHORTER = "lower cluster.minutes: slots requeue themselves, so that nothing is lost by it"
_POLICY = "use another account or QOS (cluster.account, cluster.qos), or ask the site for more"

# The first row whose pattern matches the whole word counts.
_ROWS: tuple[tuple[str, str, str, bool], ...] = (
    ("|None|WaitingForScheduling|SchedDefer",
     "the scheduler has not looked at it yet", "wait a minute", False),
    ("Priority", "jobs of a higher priority come first", _WAIT, False),
    ("Resources", "it is next, and waits until enough nodes, cores or GPUs are free", _WAIT, False),
    # By cred_expire + 1 s, 121 by default; the tick shortens it by StartTime.
    ("BeginTime", "its earliest start is still to come: Slurm holds back what was requeued",
     "wait: the next tick lets it start; `hpcpod tick` is one", False),
    ("JobArrayTaskLimit", "as many slots of its array run as are wanted at once",
     "`hpcpod scale` changes how many are wanted", False),
    ("Dependency", "it waits for the end of another job: a coordinator for the one that runs now",
     "", False),
    ("DependencyNeverSatisfied", "the job that it waits for has not ended as it should", _AGAIN,
     True),
    ("JobHeldUser", "its user holds it", "`scontrol release` lets it start", True),
    ("JobHeldAdmin", "an administrator holds it, or Slurm does after failures", _ASK_SITE, True),
    ("JobHoldMaxRequeue", "it could not be started so often that Slurm holds it", _RELEASE, True),
    ("job requeued in (held|special exit) state", "it was requeued, and is held", _RELEASE, True),
    # The coordinator cancels these ("launch failed requeued held") and asks for others.
    (".* requeued held", "it could not be started on its node, and Slurm holds it", _RELEASE, True),
    ("PartitionDown|PartitionInactive", "its partition starts no jobs at present",
     "wait, or choose another partition (cluster.partition)", False),
    ("PartitionTimeLimit", "it asks for more time than its partition allows", _SHORTER, True),
    ("PartitionNodeLimit|PartitionM(ax|in)Nodes",
     "it asks for more or fewer nodes than its partition allows, or they are down",
     "change resources.nodes_per_pod, or choose another partition (cluster.partition)", True),
    # Slurm also says this, of drained nodes, where no node could ever give what is asked for.
    ("PartitionConfig|Nodes required for job are .*",
     "the nodes that it needs are down, drained, or reserved for more important partitions",
     "wait, or choose another partition (cluster.partition); `sinfo -R` says what is down", False),
    ("ReqNodeNotAvail, Reserved for (maintenance|other reservations).*",
     "its nodes are reserved, and its time would reach into that",
     f"{_SHORTER}; `scontrol show reservation` says when", False),
    # "..., UnavailableNodes:n1" until 23.11, then "..., May be reserved for other job".
    ("ReqNodeNotAvail.*", "nodes that it needs are down, drained, busy or reserved",
     "wait, or choose others (cluster.partition, cluster.sbatch); `sinfo -R` says what is down",
     False),
    ("Reservation|Reserved", "its reservation has not begun, or is full",
     "`scontrol show reservation` says when it begins", False),
    ("ReservationDeleted|ReservationInvalid", "its reservation is no more",
     "change the reservation in cluster.sbatch, and cancel it (`scancel`)", True),
    ("MaxMemPerLimit", "it asks for more memory than one job may have",
     "lower the memory in cluster.sbatch", True),
    ("BadConstraints", "no node has all that it asks for",
     "change the options in cluster.sbatch (constraint, nodelist, mem)", True),
    ("InvalidAccount|AccountNotAllowed", "its account does not exist, or may not run there",
     "set cluster.account to another; `sacctmgr show assoc user=$USER` lists yours", True),
    ("InvalidQOS|QOSNotAllowed", "its quality of service does not exist, or is not for this user",
     "set cluster.qos to another; `sacctmgr show assoc user=$USER` lists yours", True),
    ("QOSUsageThreshold", "its account has used too much for this quality of service", _POLICY,
     False),
    # Before the other limits: what one job asks for does not become less by waiting.
    ("AssocMaxWallDurationPerJobLimit|QOSMaxWallDurationPerJobLimit",
     "it asks for more time than one job of this account or QOS may have", _SHORTER, True),
    ("(QOS|Assoc)Max\\w+MinutesPerJob(Limit)?",
     "one job may not have so many resources for so long", f"{_SHORTER}, or {_LESS}", True),
    ("(QOS|Assoc)Max\\w+Per(Job|Node)(Limit)?",
     "one job of this account or QOS may not have so much", _LESS, True),
    ("QOSMin\\w+", "it asks for less than its QOS demands of a job",
     "set cluster.qos to another, or ask for more", True),
    ("(QOS|Assoc)Grp\\w+Run(Minutes|Mins)(Limit)?",
     "what runs of this account or QOS may not have more time left than it has", _WAIT, False),
    ("(QOS|Assoc)Grp(\\w+Minutes(Limit)?|WallLimit)",
     "the time that this account or QOS may use is used up", _POLICY, True),
    ("(QOS|Assoc)(Grp|Max)(SubmitJobs?\\w*)",
     "as many jobs of this account or QOS are in the queue as may be", _POLICY, False),
    ("(QOS|Assoc)Grp\\w+", "everybody of this account or QOS together uses all that they may",
     "wait for the others, or " + _POLICY, False),
    ("QOSMax\\w+|AssocMax\\w+|Max\\w+Per(Account|User)(Limit)?",
     "you, or your account, use as much at once as is allowed",
     "wait; `hpcpod scale` to what is allowed keeps the rest out of the queue", False),
    ("(Association|QOS)(Job|Resource)Limit|AccountingPolicy",
     "this account or QOS uses all that it may", _POLICY, False),
    ("(Association|QOS)TimeLimit", "it asks for more time than this account or QOS allows",
     _SHORTER, True),
    ("Licenses", "all licenses that it needs are in use", "wait", False),
    ("Cleaning|Prolog", "its nodes are being prepared, or cleaned up after its last life", "wait",
     False),
    ("BurstBuffer\\w+", "its burst buffer is not ready", _ASK_SITE, False),
    ("MaxPoweredUpNodes|Power\\w+", "nodes would have to be powered up, and no more may be",
     "wait", False),
    ("MpiPortsBusy|NvidiaImexChannels", "all ports or channels for its network are in use", "wait",
     False),
    ("FedJobLock", "another cluster of the federation is deciding about it", "wait", False),
    ("FrontEndDown|NodeDown|SystemFailure", "nodes, or Slurm itself, have failed", _ASK_SITE,
     False),
    ("JobLaunchFailure", "it could not be started on its node",
     f"see the slot's log, or {_ASK_SITE}", False),
    ("DeadLine", "its deadline can't be met any more",
     "take the deadline out of cluster.sbatch, and cancel it (`scancel`)", True),
    ("NonZeroExitCode|RaisedSignal.*|OutOfMemory|TimeLimit|InactiveLimit",
     "its last life has ended with this", "see the slot's log", False),
)  # fmt: skip


def explain(reason: str) -> Explanation:
    """A reason in words; an unknown one as it is, with no hope taken away.

    Args:
        reason: as squeue shows it, ``ReqNodeNotAvail, UnavailableNodes:n[1-4]`` with all that is
            beside the word, with or without the parentheses of ``squeue -o %R``.
    """
    shown = reason.strip()
    if shown.startswith("(") and shown.endswith(")"):
        shown = shown[1:-1].strip()
    for pattern, meaning, advice, hopeless in _ROWS:
        if re.fullmatch(pattern, shown, re.DOTALL):
            return Explanation(shown, meaning, advice, hopeless)
    return Explanation(shown, f"Slurm says {shown}", "", False)

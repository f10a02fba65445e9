"""Slurm's own settings: limits, preemption, ways to start MPI and containers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcpod.doctor.commands import Answer
from hpcpod.launchers.slurm.scontrol import read_partitions, read_settings
from hpcpod.launchers.slurm.squeue import own_words

GROUP = "scheduler"
ASK_SECONDS = 30.0
"""Wait for an answer of a Slurm command."""
SHORT_KILL = 10.0
"""Seconds between SIGTERM and SIGKILL that a large checkpoint may need more than."""

Ask = Callable[[Sequence[str]], Answer]

_SETTINGS = (
    "SLURM_VERSION", "MaxArraySize", "MaxJobCount", "PreemptMode", "PreemptType", "JobRequeue",
    "KillWait", "SlurmctldParameters", "AuthInfo", "SchedulerParameters", "ScronParameters",
    "AccountingStorageType", "AccountingStorageEnforce", "ClusterName",
)  # fmt: skip
_ASSOC = "account,partition,maxjobs,maxsubmit,defaultqos"
_QOS = "name,maxjobspu,maxsubmitpu,maxwall,preemptmode,gracetime"


@dataclass(frozen=True)
class Wanted:
    """A run's demands on the scheduler."""

    partition: str | None
    account: str | None
    qos: str | None
    slots: int
    minutes: int
    nodes: int
    """Of one slot."""
    container: str | None = None
    """The runtime of its container."""


@dataclass(frozen=True)
class SchedulerFacts:
    """Facts from Slurm's commands."""

    error: str
    """Failure of ``scontrol show config``; else empty, and the rest is true."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of ``scontrol show config``, those that matter."""
    partition: Mapping[str, str] = field(default_factory=dict)
    """Of ``scontrol show partition``, that of the run, or the default one; empty: none is."""
    mpi: tuple[str, ...] = ()
    """Kinds of MPI that ``srun --mpi=list`` names."""
    pyxis: bool = False
    """srun has ``--container-image``."""
    accounts: tuple[Mapping[str, str], ...] | None = None
    """This user's associations; None if the site keeps no accounts, or they are unknown."""
    account: str = ""
    """The one that is charged where none is named."""
    qos: tuple[Mapping[str, str], ...] = ()
    """Every quality of service."""


def is_installed() -> bool:
    """True if Slurm's commands are on the PATH."""
    return shutil.which("sbatch") is not None and shutil.which("scontrol") is not None


def choose(partitions: Sequence[Mapping[str, str]], name: str | None) -> Mapping[str, str]:
    """The partition of this name, or the default one; empty if there is none.

    Of several names with commas between them, of which Slurm takes one, the first.
    """
    names = name.split(",") if name else []
    for row in partitions:
        if row["PartitionName"] in names[:1] or (not names and row.get("Default") == "YES"):
            return row
    return {}


def read_mpi(text: str) -> tuple[str, ...]:
    """The kinds that ``srun --mpi=list`` names, without the versions of one kind."""
    kinds = []
    for line in text.splitlines():
        words = re.sub(r"^\s*(srun:\s*)?", "", line).strip()
        # 22.05 has versions among the kinds
        if re.fullmatch(r"[a-z][a-z0-9_]*", words) and not re.fullmatch(r"pmix_v\d+", words):
            kinds.append(words)
    return tuple(dict.fromkeys(kinds))


def read_table(text: str, columns: str) -> tuple[dict[str, str], ...]:
    """Rows of ``sacctmgr -nP``: fields with a bar between them, under these columns."""
    names = columns.split(",")
    rows = [line.split("|") for line in text.splitlines()]
    return tuple(dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names))


def look(ask: Ask, wanted: Wanted, user: str) -> SchedulerFacts:
    """Ask each command once.

    Args:
        ask: runs a Slurm command.
        wanted: by the run.
        user: whose associations to look up.
    """
    config = ask(["scontrol", "show", "config"])
    if not config.ok:
        return SchedulerFacts(own_words(config.err) or "scontrol does not answer")
    settings = read_settings(config.out)
    kinds = ask(["srun", "--mpi=list"])
    facts = SchedulerFacts(
        error="",
        settings={name: settings[name] for name in _SETTINGS if settings.get(name)},
        partition=choose(
            read_partitions(ask(["scontrol", "show", "partition", "-o"]).out), wanted.partition
        ),
        mpi=read_mpi(kinds.out + "\n" + kinds.err),  # 22.05 lists them on standard error
        # a plugin, seen only by its options
        pyxis="--container-image" in ask(["srun", "--help"]).out,
    )
    if "slurmdbd" not in settings.get("AccountingStorageType", "") or not user:
        return facts
    return _with_accounts(facts, ask, user, settings.get("ClusterName", ""))


def _with_accounts(facts: SchedulerFacts, ask: Ask, user: str, cluster: str) -> SchedulerFacts:
    where = ["where", f"user={user}", *([f"cluster={cluster}"] if cluster else [])]
    accounts = ask(["sacctmgr", "-nP", "show", "assoc", *where, f"format={_ASSOC}"])
    default = ask(["sacctmgr", "-nP", "show", "user", user, "format=defaultaccount"])
    qos = ask(["sacctmgr", "-nP", "show", "qos", f"format={_QOS}"])
    return replace(
        facts,
        accounts=read_table(accounts.out, _ASSOC) if accounts.ok else None,
        account=default.out.strip(),
        qos=read_table(qos.out, _QOS),
    )

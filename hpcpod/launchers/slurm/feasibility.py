"""Jobs that could never start: their demands beside what Slurm's nodes have."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcpod.errors import LaunchError
from hpcpod.launchers.base import JobView
from hpcpod.launchers.slurm.capacity import (
    NODES_FORMAT,
    Obstacle,
    Partition,
    in_words,
    obstacles,
    read_capacity,
)
from hpcpod.launchers.slurm.demands import Demand, read_demand
from hpcpod.launchers.slurm.scontrol import read_settings
from hpcpod.launchers.slurm.squeue import Kind
from hpcpod.records.records import Intent

Ask = Callable[..., str]
"""Runs a Slurm command, given by its words, and gives what it prints; or ``LaunchError``."""

_WHO = {
    "slots": ("a slot", "cluster.partition"),
    "coordinator": ("the coordinator", "cluster.coordinator_partition"),
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Impossible:
    """Something that jobs of a kind ask for, and that no node could give."""

    kind: Kind
    field: str
    """The field of the configuration by which it is asked for."""
    said: str
    """One sentence, the field first: the demand, what there is, and what to do."""


def foresee(
    ask: Ask,
    script: Callable[[Intent], str],
    kinds: Sequence[Kind],
    waiting: Sequence[JobView] | None = None,
) -> list[Impossible]:
    """Demands of jobs that no node could meet; none where Slurm can't say.

    Args:
        ask: how to ask Slurm.
        script: makes the texts that sbatch gets.
        kinds: of the jobs that would be submitted now.
        waiting: jobs that wait already, whose time limit and partition a user may have changed;
            None: those that would be submitted.

    Raises:
        UserError: a text can't be made as it is written.
    """
    if "SLURM_CLUSTERS" in os.environ:  # which of them would take a job is not known
        return []
    demands = [(kind, read_demand(script(Intent(0, "", kind, 1)))) for kind in kinds]
    demands = _by_default(demands) if waiting is None else _changed(dict(demands), waiting)
    try:
        found = ask_obstacles(ask, [demand for _, demand in demands]) if demands else []
    except LaunchError as error:
        log.debug("whether the jobs could ever start is not known: %s", error)
        return []
    said: dict[tuple[Kind, str], Impossible] = {}
    for (kind, _), there in zip(demands, found, strict=True):
        if there:
            who, choose = _WHO[kind]
            remedy = f"ask for less, or choose another partition ({choose})"
            field = there[0].field
            said.setdefault((kind, field), Impossible(kind, field, in_words(who, there, remedy)))
    return list(said.values())


def sentences(found: Sequence[Impossible]) -> list[str]:
    """The sentences to show: one where slots and coordinator share a field."""
    return list({each.field: each.said for each in reversed(found)}.values())[::-1]


def _by_default(demands: Sequence[tuple[Kind, Demand]]) -> list[tuple[Kind, Demand]]:
    """The demands, in the user's own partition where a script names none."""
    own = _names(os.environ.get("SBATCH_PARTITION", ""))
    return [(kind, replace(d, partitions=d.partitions or own)) for kind, d in demands]


def _changed(
    demands: Mapping[Kind, Demand], waiting: Sequence[JobView]
) -> list[tuple[Kind, Demand]]:
    """The demands of jobs that wait: once for each partition and time limit."""
    there = dict.fromkeys((job.kind, job.partition, job.left) for job in waiting)
    return [
        (kind, replace(demands[kind], partitions=_names(partition), minutes=(left or 0.0) / 60))
        for kind, partition, left in there
        if kind in demands
    ]


def _names(partitions: str) -> tuple[str, ...]:
    return tuple(filter(None, partitions.split(",")))


def ask_obstacles(ask: Ask, demands: Sequence[Demand]) -> list[list[Obstacle]]:
    """For each demand what makes it impossible, in each partition that Slurm may take; empty if
    nothing does. Three questions, and a fourth where a QOS may lift a limit.

    Raises:
        LaunchError: it is unknown.
    """
    settings = read_settings(ask("scontrol", "show", "config"))
    partitions = read_capacity(
        ask("scontrol", "-a", "show", "partition", "-o"),  # -a: hidden ones, too
        ask("sinfo", "-a", "-h", "-N", "-o", NODES_FORMAT),
    )
    # CR_Core_Memory, CR_CPU_Memory
    counts = "MEMORY" in settings.get("SelectTypeParameters", "").upper()
    found = []
    for demand in demands:
        where = _eligible(demand, partitions, bool(settings.get("JobSubmitPlugins")))
        there = obstacles(demand, where, counts_memory=counts)
        lifted = any(obstacle.limit for obstacle in there) and _lifts(ask, settings, demand.qos)
        found.append([] if lifted else there)
    return found


def _eligible(
    demand: Demand, partitions: Sequence[Partition], choosing: bool
) -> Sequence[Partition]:
    """The partitions that Slurm may take for a job; none where that can't be told.

    Args:
        demand: what the job asks for.
        partitions: all that there are.
        choosing: a plugin of the site may choose one for a job that names none.
    """
    if demand.elsewhere:
        return ()
    if demand.partitions:
        named = [partition for partition in partitions if partition.name in demand.partitions]
        return named if len(named) == len(set(demand.partitions)) else ()
    return [partition for partition in partitions if partition.default or choosing]


def _lifts(ask: Ask, settings: Mapping[str, str], qos: str) -> bool:
    """True if the QOS of a job, or one that it may get, lifts the limits of partitions."""
    if "slurmdbd" not in settings.get("AccountingStorageType", ""):
        return False
    words = ("sacctmgr", "-nP", "show", "qos", "format=name,flags")
    rows = [row.partition("|") for row in ask(*words).splitlines()]
    lifting = re.compile("Partition(TimeLimit|MaxNodes)|OverPartQOS")
    # Which QOS a user has by default is not asked: any that lifts limits may be it.
    return any(lifting.search(flags) for name, _, flags in rows if qos in ("", name))

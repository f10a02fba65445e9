"""Nodes of a partition, and demands that none of them could meet: pure functions.

Only what no node could give counts, were all of them up and idle: a node that is down or drained
comes back. Where something is not known, nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcpod.launchers.slurm.demands import Demand
from hpcpod.launchers.slurm.scontrol import minutes_of, read_partitions
from hpcpod.launchers.slurm.sinfo import gpu_counts

NODES_FORMAT = "%N|%P|%c|%m|%f|%G"
"""For ``sinfo -N -o``: name, partition, cores, megabytes, features, generic resources."""


@dataclass(frozen=True)
class Node:
    """A node when no job is on it, as far as its partition lends it."""

    cpus: float
    """Cores; inf if unknown."""
    memory: float
    """Megabytes; inf if unknown."""
    gpus: Mapping[str, int]
    """GPUs by their type; ``""``: Slurm knows no type."""
    features: frozenset[str]

    def gpus_of(self, kind: str) -> int:
        """GPUs of a type, whatever its letters' case; of every type for ``""``."""
        return sum(n for name, n in self.gpus.items() if kind.lower() in ("", name.lower()))


@dataclass(frozen=True)
class Partition:
    """A partition's limits and its nodes."""

    name: str
    default: bool
    minutes: float
    """The longest time limit of a job; no limit: inf."""
    most_nodes: float
    """Nodes that one job may have; no limit: inf."""
    total: int | None
    """Nodes that it has, those that Slurm does not show among them; None: it does not say."""
    nodes: tuple[Node, ...]

    @property
    def known(self) -> bool:
        """True if all its nodes are shown: those of a cloud that sleep may not be."""
        return bool(self.nodes) and self.total is not None and len(self.nodes) >= self.total


@dataclass(frozen=True)
class Obstacle:
    """Something that a partition can't give."""

    field: str
    """The field of the configuration by which it is asked for."""
    asked: str
    has: str
    limit: bool = False
    """It is a limit of the partition, which a QOS may lift."""


def read_capacity(partitions: str, nodes: str) -> tuple[Partition, ...]:
    """The partitions of ``scontrol show partition -o``, with the nodes that sinfo lists.

    Args:
        partitions: a line for each.
        nodes: by ``NODES_FORMAT``, a line for each node of each partition.
    """
    rows = [line.split("|") for line in nodes.splitlines()]
    listed: dict[str, list[list[str]]] = {}
    for row in rows:
        if len(row) == len(NODES_FORMAT.split("|")):
            listed.setdefault(row[1].strip().rstrip("*"), []).append(row)
    return tuple(
        Partition(
            name=words["PartitionName"],
            default=words.get("Default") == "YES",
            minutes=minutes_of(words.get("MaxTime", "")) or math.inf,
            most_nodes=_limit(words, "MaxNodes"),
            total=int(_limit(words, "TotalNodes", -1)) if "TotalNodes" in words else None,
            nodes=tuple(_node(row, words) for row in listed.get(words["PartitionName"], [])),
        )
        for words in read_partitions(partitions)
    )


def _node(row: Sequence[str], partition: Mapping[str, str]) -> Node:
    _, _, cpus, memory, features, resources = row
    return Node(
        cpus=min(_number(cpus), _limit(partition, "MaxCPUsPerNode")),
        memory=min(_number(memory), _limit(partition, "MaxMemPerNode")),
        gpus=gpu_counts(resources),
        features=frozenset(features.replace("(null)", "").split(",")) - {""},
    )


def _number(text: str) -> float:
    digits = text.strip().rstrip("+")
    return float(digits) if digits.isdecimal() else math.inf


def _limit(words: Mapping[str, str], name: str, none: float = math.inf) -> float:
    text = words.get(name, "")
    return float(text) if text.isdecimal() else none


def obstacles(
    demand: Demand, partitions: Sequence[Partition], *, counts_memory: bool = False
) -> list[Obstacle]:
    """Obstacles that make a demand impossible, in each partition that Slurm may take for it.

    Args:
        demand: what is asked for.
        partitions: all that may be taken; empty where that is not known.
        counts_memory: the memory of each core is a resource, of which a node has only so much.

    Returns:
        One obstacle for each partition; empty if one of them could do it.
    """
    found: list[Obstacle] = []
    for partition in partitions:
        first = next(_obstacles(demand, partition, counts_memory), None)
        if first is None:
            return []
        found.append(first)
    return found


def in_words(who: str, found: Sequence[Obstacle], remedy: str) -> str:
    """Obstacles as one sentence, their field first.

    Args:
        who: asks, such as ``a slot``.
        found: at least one obstacle.
        remedy: what to do about it.
    """
    asked: dict[str, list[str]] = {}
    for obstacle in found:
        asked.setdefault(obstacle.asked, []).append(obstacle.has)
    clauses = [f"for {what}, but {' and '.join(has)}" for what, has in asked.items()]
    return f"{found[0].field}: {who} asks {'; and '.join(clauses)}; {remedy}"


def _obstacles(demand: Demand, partition: Partition, counts_memory: bool) -> Iterator[Obstacle]:
    name, nodes = f"partition {partition.name}", demand.nodes
    if demand.minutes > partition.minutes:
        asked, allowed = (f"{minutes:g}" for minutes in (demand.minutes, partition.minutes))
        has = f"{name} allows no more than {allowed}"
        yield Obstacle("cluster.minutes", f"{asked} minutes", has, limit=True)
    if nodes > partition.most_nodes:
        has = f"{name} gives one job no more than {partition.most_nodes:g}"
        yield Obstacle("resources.nodes_per_pod", f"{nodes} nodes", has, limit=True)
    if not partition.known:
        return
    if nodes > len(partition.nodes):
        has = f"{name} has no more than {len(partition.nodes)}"
        yield Obstacle("resources.nodes_per_pod", f"{nodes} nodes", has)
        return
    needs = _needs(demand, counts_memory)
    for need in needs:
        yield from _short(need, demand, partition, partition.nodes, "")
    # Each alone could be had; now of the same nodes.
    pool, having = partition.nodes, ""
    for need in needs:
        yield from _short(need, demand, partition, pool, having)
        pool = tuple(node for node in pool if need.of(node) >= need.least)
        having = f"{having} and {need.words}" if having else f" with {need.words}"


@dataclass(frozen=True)
class _Need:
    """A part of a demand that one node has to meet."""

    field: str
    words: str
    least: float
    of: Callable[[Node], float]
    unit: str = ""
    among: Callable[[Node], frozenset[str]] | None = None
    """The values that nodes have in place of the one that is asked for."""


def _short(
    need: _Need, demand: Demand, partition: Partition, pool: Sequence[Node], having: str
) -> Iterator[Obstacle]:
    """The obstacle, if too few nodes of a pool meet a need."""
    nodes = demand.nodes
    best = sorted(map(need.of, pool), reverse=True)
    most = best[nodes - 1] if len(best) >= nodes else 0.0
    if most >= need.least:
        return
    where = "on one node" if nodes == 1 else f"on each of {nodes} nodes"
    name = f"partition {partition.name}"
    if need.among is not None and best and best[0] == 0:
        there = sorted(frozenset().union(*map(need.among, pool)))
        has = f"no node of {name}{having} has that, only {', '.join(there) or 'none at all'}"
    else:
        than = f"{most / 1024:.4g} GB" if need.unit == "GB" else f"{most:g}"
        has = (
            f"no node of {name}{having} has more than {than}"
            if nodes == 1
            else f"{name} has no {nodes} nodes{having} with more than {than} each"
        )
    yield Obstacle(need.field, f"{need.words} {where}", has)


def _needs(demand: Demand, counts_memory: bool) -> list[_Need]:
    """The needs of a demand on each node, the scarce ones first."""
    memory = max(demand.memory, demand.core_memory * (demand.cpus if counts_memory else 1))
    size, cores = f"{memory / 1024:.4g} GB", f"{demand.cpus} core{'s' * (demand.cpus != 1)}"
    return [
        *(_gpus(kind, count) for kind, count in demand.gpus.items()),
        *map(_feature, sorted(demand.features)),
        *([_Need("cluster.sbatch", size, memory, lambda n: n.memory, "GB")] if memory else []),
        _Need("resources.cpus_per_pod", cores, demand.cpus, lambda n: n.cpus),
    ]


def _gpus(kind: str, count: int) -> _Need:
    words = f"{count} GPU{'s' * (count != 1)}" + (f" of type {kind}" if kind else "")
    among = _types if kind else None
    return _Need(
        "resources.gpus_per_pod", words, count, lambda node: node.gpus_of(kind), among=among
    )


def _feature(name: str) -> _Need:
    return _Need(
        "cluster.sbatch",
        f"the feature {name}",
        1,
        lambda node: float(name in node.features),
        among=lambda node: node.features,
    )


def _types(node: Node) -> frozenset[str]:
    return frozenset(name or "GPUs without a type" for name, count in node.gpus.items() if count)

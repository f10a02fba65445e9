"""Output of sinfo, read into plain data: pure functions, no process is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hpcpod.config.placement import Shape
from hpcpod.launchers.base import Idle, IdleNode

NODE_FORMAT = "%c|%G"
"""Cores and generic resources of a node."""

_COLUMNS = {
    "NodeList": 64,  # 21.08 and 22.05 list no node of a cloud that sleeps
    "Partition": 64,
    "Available": 12,
    "StateCompact": 24,  # a node planned for another job is mix- from 24.11 on, mix before
    "CPUsState": 32,
    "Gres": 160,
    "GresUsed": 240,  # gpu:2; gpu:(null):2(IDX:0-1) by 24.11 and 25.11; gpu:2(IDX:0-1) by 26.05
}
IDLE_FORMAT = ",".join(f"{name}:{width}|" for name, width in _COLUMNS.items())
"""For ``sinfo -N -O``, as ``-o`` has no letter for what is used. Without widths of our own each
column would be cut after 20 characters."""

_USABLE = {"idle", "mix"}
# A node that sleeps, or wakes up, is started for the job that needs it. Of the other signs after a
# state some mean that it does not answer (*) or is going down (! %), some that it is to be
# rebooted (@ ^) or in maintenance ($), and one that a larger job has been promised it (-).
_STATE = re.compile(r"(?P<word>[a-z_]+)(?P<sign>[~#]?)")
_COUNT = re.compile(r"(\d{1,9})([KMG]?)", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}  # as in gres.conf: K is 1024


def largest_node(listing: str, gpu_type: str | None = None) -> tuple[int, int]:
    """The GPUs of the node that has most of them, and its cores; without GPUs, the most cores.

    Args:
        listing: of sinfo by ``NODE_FORMAT``: ``64|gpu:a100:8(S:0-1),shard:32`` or ``16|(null)``.
        gpu_type: the type of GPUs that count; None: every one.
    """
    nodes = [(0, 1)]
    for line in listing.splitlines():
        cores, _, resources = line.partition("|")
        # sinfo says "16+" where nodes of one line differ.
        count = _number(cores.strip().removesuffix("+")) or 1
        nodes.append((gpus(resources, gpu_type), count))
    return max(nodes)


def read_idle(listing: str, partitions: Sequence[str] = (), gpu_type: str | None = None) -> Idle:
    """Idle resources on the nodes of these partitions.

    Counted are nodes in the states ``idle`` and ``mix`` of a partition that is up, also those that
    sleep to save power: they are woken up for a job. Lines that are not sinfo's are passed over.

    Args:
        listing: of sinfo by ``IDLE_FORMAT``; a node has a line for each of its partitions.
        partitions: their names; none are those that Slurm has by default, marked with ``*``.
        gpu_type: the type of GPUs that count; None: every one.
    """
    rows = [row for row in map(_row, listing.splitlines()) if row]
    names = {name.strip() for name in partitions}
    if not names:
        # no partition need be the default
        names = {row[1] for row in rows if row[1].endswith("*")} or {row[1] for row in rows}
    nodes: dict[str, IdleNode] = {}
    for name, partition, available, state, cpus, has, uses in rows:
        asked = not names.isdisjoint((partition, partition.rstrip("*")))
        if asked and available.lower() == "up" and _starts_jobs(state):
            used = gpus(uses, gpu_type) + _shared_gpus(uses)
            free = max(0, gpus(has, gpu_type) - used)
            nodes[name] = IdleNode(name, free, _idle_cpus(cpus))
    return Idle(tuple(nodes.values()))


def slots_that_fit(idle: Idle, shape: Shape, lanes: int = 1) -> int:
    """The number of elements of this shape that could start at once on what is idle.

    Args:
        idle: idle nodes.
        shape: of a pod.
        lanes: pods that share an element, its GPU and nothing else.
    """
    cpus = shape.cpus_per_rank * shape.ranks_per_node * lanes
    rooms = []
    for node in idle.nodes:
        room = node.cpus // cpus
        rooms.append(min(room, node.gpus // shape.gpus_per_node) if shape.gpus_per_node else room)
    if shape.nodes == 1:
        return sum(rooms)
    # An element has one share on each of its nodes: of n elements a node takes n shares at most.
    fewest, most = 0, sum(rooms) // shape.nodes
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if sum(min(room, middle) for room in rooms) >= middle * shape.nodes:
            fewest = middle
        else:
            most = middle - 1
    return fewest


def gpus(resources: str, gpu_type: str | None = None) -> int:
    """The number of GPUs of a type, or of whatever type, in any of Slurm's ways to say it.

    ``gpu:8``, ``gpu:a100:8(S:0-1)``, ``gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2)``,
    ``gpu:(null):0(IDX:N/A)``, ``gres/gpu=4``; ``shard`` and ``mps`` are shares of the same GPUs.
    """
    counts = gpu_counts(resources)
    return sum(counts.values()) if gpu_type is None else counts.get(gpu_type, 0)


def gpu_counts(resources: str) -> dict[str, int]:
    """GPUs of each type, in any of the ways of ``gpus``; ``""``: no type is said."""
    counts: dict[str, int] = {}
    for name, kind, count in _resources(resources):
        if name == "gpu":  # not gpumem:80G
            counts[kind] = counts.get(kind, 0) + count
    return counts


def _row(line: str) -> list[str] | None:
    fields = line.split("|")
    if len(fields) < len(_COLUMNS):
        return None
    # A full column may have been cut: what is used is not all there.
    if any(len(field.rstrip()) >= w for field, w in zip(fields, _COLUMNS.values(), strict=False)):
        return None
    return [field.strip() for field in fields[: len(_COLUMNS)]]


def _starts_jobs(state: str) -> bool:
    match = _STATE.fullmatch(state.lower())
    return match is not None and match["word"] in _USABLE


def _idle_cpus(states: str) -> int:
    """Of ``allocated/idle/other/total``."""
    counts = states.split("/")
    return _number(counts[1]) if len(counts) == 4 else 0


def _resources(text: str) -> Iterator[tuple[str, str, int]]:
    """The name, the type and the number of each."""
    # in brackets stand sockets, (S:0-1), or indices, (IDX:0,2)
    bare = re.sub(r"\([^()]*\)", "", text.replace("(null)", ""))
    for item in bare.split(","):
        name, *rest = re.split("[:=]", item.strip())
        kind = rest[0] if len(rest) > 1 else ""
        # TRES say gres/gpu=4, and a bare "gpu" is one
        yield name.removeprefix("gres/"), kind, _number(rest[-1]) if rest else int(bool(name))


def _shared_gpus(used: str) -> int:
    """GPUs of which a job has a share: no other job can have them whole.

    Until 23.02 Slurm lists them, ``shard:(null):1(IDX:0)``; since then it says how much of each is
    taken, ``shard:3(3/4,-/4)``.
    """
    touched = 0
    for where in re.findall(r"(?:shard|mps)(?:\(null\)|[^,()])*\(([^()]*)\)", used):
        if where.startswith("IDX:"):
            touched += _listed(where.removeprefix("IDX:"))
        else:
            touched += sum(_number(share.partition("/")[0]) > 0 for share in where.split(","))
    return touched


def _listed(indices: str) -> int:
    """How many there are in ``0-2,5``."""
    found = 0
    for part in indices.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdecimal():
            found += max(1, _number(last) - _number(first) + 1) if last else 1
    return found


def _number(text: str) -> int:
    match = _COUNT.fullmatch(text.strip())
    return int(match[1]) * _UNITS[match[2]] if match else 0

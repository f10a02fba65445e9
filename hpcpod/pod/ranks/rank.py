"""One rank of a pod, as srun, torchrun, mpirun or the slot has numbered it. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod.errors import LaunchError


class RankLost(Exception):
    """Another rank is gone, or did not answer in time: this exchange and all later ones fail."""


@dataclass(frozen=True)
class Rank:
    """One rank among those of a pod."""

    number: int = 0
    """0 to ``size`` - 1."""
    size: int = 1
    """Ranks of the pod."""
    local_rank: int = 0
    """0 to ``local_size`` - 1: which of those on this node."""
    local_size: int = 1
    """Ranks of the pod on this node."""
    started_by: str = "none"
    """``torchrun``, ``mpirun``, ``srun``, or ``none``: it is alone."""

    def __post_init__(self) -> None:
        if not (0 <= self.number < self.size and 0 <= self.local_rank < self.local_size):
            raise LaunchError(
                f"{self.started_by} says that this is rank {self.number} of {self.size}, on this"
                f" node {self.local_rank} of {self.local_size}: that can't be; start all ranks of a"
                " pod by one srun, mpirun or torchrun"
            )


def rank_of(environment: Mapping[str, str]) -> Rank:
    """The rank that a launcher has written into the environment.

    torchrun's variables come first, as they may stand inside a job of Slurm's, then those of
    Open MPI's mpirun, then those of srun.

    Raises:
        LaunchError: they are not numbers, or contradict each other.
    """
    for started_by, (rank, size, local_rank, local_size) in _VARIABLES.items():
        if rank in environment and size in environment:
            numbers = [
                _number(environment, rank, "0"),
                _number(environment, size, "1"),
                _number(environment, local_rank, environment[rank]),
                _number(environment, local_size, environment[size]),
            ]
            return Rank(numbers[0], numbers[1], numbers[2], numbers[3], started_by)
    if "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment:
        node = _number(environment, "SLURM_NODEID", "0")
        tasks = environment.get("SLURM_STEP_TASKS_PER_NODE", "1")
        return Rank(
            _number(environment, "SLURM_PROCID", "0"),
            _number(environment, "SLURM_STEP_NUM_TASKS", "1"),
            _number(environment, "SLURM_LOCALID", "0"),
            tasks_of_node(tasks, node),
            "srun",
        )
    return Rank()


_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpirun": (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
}  # fmt: skip


def tasks_of_node(listing: str, node: int) -> int:
    """Tasks of a node by Slurm's shorthand: ``2(x3),1`` is 2, 2, 2, 1.

    Raises:
        LaunchError: the listing can't be read, or has no such node.
    """
    counts: list[int] = []
    for part in listing.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            raise LaunchError(f"SLURM_STEP_TASKS_PER_NODE is {listing!r}: not a list of numbers")
        counts += [int(found[1])] * int(found[2] or 1)
    if node >= len(counts):
        raise LaunchError(
            f"this is node {node} of the job step, but SLURM_STEP_TASKS_PER_NODE is {listing!r}"
        )
    return counts[node]


def _number(environment: Mapping[str, str], name: str, default: str) -> int:
    text = environment.get(name, default)
    if not text.isdigit():
        raise LaunchError(f"{name} is {text!r} in the environment: not a number")
    return int(text)

"""One of two MPI ranks that a probe starts.

``srun -n 2 --mpi=KIND python -m hpcpod.doctor.probes.rank FOLDER KIND``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod.doctor.probes.peers import leave

RANKS = 2


@dataclass(frozen=True)
class RankFacts:
    """Facts that one of the ranks has seen."""

    kind: str
    """Value of ``srun --mpi=``."""
    size: int
    """Ranks that it says there are."""
    total: int
    """The sum of all ranks' numbers plus one, by an all-reduce: 3 if both took part."""


def main(folder: Path, kind: str) -> None:
    """Meet the other rank, and leave what was seen in the folder."""
    # Open MPI 4.1.4 ends by none and pmi2: "not built with SLURM's PMI support".
    # mpi4py starts MPI as it is imported: where the kind is wrong this may end the process.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    facts = RankFacts(kind, world.Get_size(), world.allreduce(world.Get_rank() + 1))
    task = os.environ.get("SLURM_PROCID", "0")
    leave(folder, f"mpi-{kind}-{task}", facts)


def works(kind: str, ranks: Sequence[RankFacts]) -> bool:
    """True if both ranks were there, and knew of each other."""
    mine = [rank for rank in ranks if rank.kind == kind]
    whole = [rank for rank in mine if rank.size == RANKS and rank.total == RANKS * (RANKS + 1) // 2]
    return len(whole) == RANKS


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

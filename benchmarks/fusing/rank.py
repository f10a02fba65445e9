"""One rank: ``python -m fusing.rank FOLDER RANKS BACKEND`` does the orders that come in, by lines.

Every rank does each of them; the first one hears of them, and says what came of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from fusing import exchange, replicas
from hpcpod.pod.ranks.group import Meeting, join
from hpcpod.pod.ranks.rank import Rank, rank_of
from hpcpod.storage.disk import Disk

SECONDS = 300.0
"""Until a silent rank is taken for lost: a gang shares its cores with others."""
WORK = {"epochs": exchange.epochs, "fuse": exchange.fuse, "learn": replicas.learn}


def main() -> None:
    folder, size, backend = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rank = rank_of(os.environ) if size > 1 else Rank()
    meeting = Meeting(Disk(), folder, "meeting", size, SECONDS, {})
    if backend not in ("gloo", "mpi"):
        raise SystemExit(f"{backend} is neither gloo nor mpi")
    group = join(rank, meeting, "mpi" if backend == "mpi" else "gloo", torch.device("cpu"))
    while line := group.gather(sys.stdin.readline() if group.rank == 0 else "")[0]:
        order = json.loads(line)
        result = WORK[order["kind"]](group, order)
        if group.rank == 0:
            print(json.dumps(result), flush=True)
    group.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    main()

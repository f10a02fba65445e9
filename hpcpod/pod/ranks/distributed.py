"""torch.distributed between the ranks: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
from collections.abc import Iterator
from typing import Literal

import torch
import torch.distributed as dist

# Its functions have the default group as a default argument, and an optimizer imports them. When
# that is after the group was made they hold it for good: closing it ends no thread of gloo's, and
# one that frees a tensor while Python ends aborts the process (SIGABRT, instead of our exit code).
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from hpcpod.pod.ranks.communicator import RankLost
from hpcpod.pod.ranks.rank import Rank

log = logging.getLogger(__name__)


class Distributed:
    """A process group of torch's, the only one of its process.

    What ranks tell each other beside tensors always goes by gloo, which notices at once that
    another rank is gone.
    """

    def __init__(
        self,
        rank: Rank,
        store: Store,
        backend: Literal["gloo", "nccl"],
        device: torch.device,
        seconds: float,
    ) -> None:
        """Join; every rank of the pod must.

        Args:
            rank: this process's.
            store: where they have met.
            backend: what carries tensors that are on a GPU.
            device: this rank's own.
            seconds: after which a rank that does not come is taken for lost.

        Raises:
            RankLost: not all ranks came.
        """
        self.rank, self.size, self.backend = rank.number, rank.size, backend
        # Else NCCL's watchdog ends the process, where an exception lets it save itself.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        with _losses("joining the other ranks"):
            dist.init_process_group(
                "gloo" if backend == "gloo" else "cpu:gloo,cuda:nccl",
                store=store, rank=rank.number, world_size=rank.size,
                timeout=datetime.timedelta(seconds=seconds),
                device_id=device if backend == "nccl" else None,
            )  # fmt: skip

    def sum_(self, vector: Tensor) -> None:
        """See ``Communicator``."""
        with _losses("adding vectors up"):
            dist.all_reduce(vector)

    def gather(self, message: str) -> list[str]:
        """See ``Communicator``."""
        raw = torch.tensor([*message.encode()], dtype=torch.uint8)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(raw)
        with _losses("gathering messages"):
            dist.all_reduce(lengths)
            sizes = [int(n) for n in lengths.tolist()]
            room = torch.zeros(self.size, max(1, *sizes), dtype=torch.uint8)
            room[self.rank, : len(raw)] = raw
            dist.all_reduce(room)
        return [bytes(row[:n].tolist()).decode() for row, n in zip(room, sizes, strict=True)]

    def close(self) -> None:
        """See ``Communicator``."""
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


@contextlib.contextmanager
def _losses(doing: str) -> Iterator[None]:
    """Have torch's errors say ``RankLost``: it has one type for all that goes wrong."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RankLost(
            f"another rank of this pod is gone, or silent; while {doing}:"
            f" {str(error).splitlines()[0]}"  # torch's errors have dozens of lines
        ) from error

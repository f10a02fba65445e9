"""MPI between the ranks, by mpi4py. ``from mpi4py import MPI`` calls MPI_Init: import it late."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import torch
from mpi4py import MPI
from torch import Tensor

from hpcpod.pod.ranks.communicator import RankLost

_KINDS = {torch.float32: MPI.FLOAT, torch.float64: MPI.DOUBLE}


class Mpi:
    """MPI's world. A GPU's tensors go by way of the host's memory, unless this MPI knows GPUs.

    A rank that dies takes the others with it: MPI ends them all, and the pod goes back to its
    last checkpoint.
    """

    backend = "mpi"

    def __init__(self) -> None:
        self._world = MPI.COMM_WORLD
        self._world.Set_errhandler(MPI.ERRORS_RETURN)  # by default an error ends the process
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self._knows_gpus = knows_gpus()

    def sum_(self, vector: Tensor) -> None:
        """See ``Communicator``."""
        kind = _KINDS[vector.dtype]
        with _losses("adding vectors up"):
            if vector.device.type == "cpu":
                self._world.Allreduce(MPI.IN_PLACE, [vector.numpy(), kind], MPI.SUM)
            elif self._knows_gpus:
                torch.cuda.synchronize(vector.device)  # MPI does not wait for torch's stream
                self._world.Allreduce(MPI.IN_PLACE, [vector, kind], MPI.SUM)
            else:
                host = vector.cpu()
                self._world.Allreduce(MPI.IN_PLACE, [host.numpy(), kind], MPI.SUM)
                vector.copy_(host)

    def gather(self, message: str) -> list[str]:
        """See ``Communicator``."""
        raw = message.encode()
        with _losses("gathering messages"):
            sizes = self._world.allgather(len(raw))
            room = bytearray(sum(sizes))
            self._world.Allgatherv([raw, MPI.BYTE], [room, sizes, None, MPI.BYTE])
        ends = [sum(sizes[: n + 1]) for n in range(self.size)]
        return [room[e - n : e].decode() for e, n in zip(ends, sizes, strict=True)]

    def close(self) -> None:
        """See ``Communicator``: MPI's own way out is ``MPI_Finalize`` at the process's end."""


def knows_gpus() -> bool:
    """True if this MPI takes pointers into a GPU's memory; Open MPI tells, others may not."""
    try:
        answer = ctypes.CDLL(MPI.__file__).MPIX_Query_cuda_support()
    except (AttributeError, OSError):
        return False
    return bool(answer)  # 0 of Debian's Open MPI 4.1.4


@contextlib.contextmanager
def _losses(doing: str) -> Iterator[None]:
    try:
        yield
    except MPI.Exception as error:
        raise RankLost(f"another rank of this pod is gone; while {doing}: {error}") from error

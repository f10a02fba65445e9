"""MPI between the ranks, by mpi4py. ``from mpi4py import MPI`` calls MPI_Init: import it late."""

from __future__ import annotations

import torch
from mpi4py import MPI
from torch import Tensor

from hpcpod.pod.ranks.communicator import RankLost

_KINDS = {torch.float32: MPI.FLOAT, torch.float64: MPI.DOUBLE}


class Mpi:
    """MPI's world. Tensors of a GPU are carried by way of the host's memory.

    A rank that dies takes the others with it: MPI ends them all, and the pod goes back to its
    last checkpoint.
    """

    backend = "mpi"
    device = torch.device("cpu")

    def __init__(self) -> None:
        self._world = MPI.COMM_WORLD
        self._world.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()

    def sum_(self, vector: Tensor) -> None:
        """See ``Communicator``."""
        host = vector.detach().cpu()
        try:
            self._world.Allreduce(MPI.IN_PLACE, [host.numpy(), _KINDS[host.dtype]], MPI.SUM)
        except MPI.Exception as error:
            raise RankLost(f"while adding vectors up: {error}") from error
        if vector.device.type != "cpu":
            vector.copy_(host)

    def broadcast_(self, vector: Tensor) -> None:
        """See ``Communicator``."""
        host = vector.detach().cpu()
        try:
            self._world.Bcast([host.numpy(), _KINDS[host.dtype]], 0)
        except MPI.Exception as error:
            raise RankLost(f"while taking rank 0's vector: {error}") from error
        if vector.device.type != "cpu":
            vector.copy_(host)

    def gather(self, message: str) -> list[str]:
        """See ``Communicator``."""
        try:
            found: list[str] = self._world.allgather(message)
        except MPI.Exception as error:
            raise RankLost(f"while gathering messages: {error}") from error
        return found

    def close(self) -> None:
        """See ``Communicator``: MPI's own way out is ``MPI_Finalize`` at the process's end."""

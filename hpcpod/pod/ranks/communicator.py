"""Communicators: exchange between ranks by torch.distributed, by MPI, or in a group of one."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from hpcpod.pod.ranks.rank import RankLost as RankLost


class Communicator(Protocol):
    """A group of ranks that call the same methods in the same order.

    Raises (every method that exchanges):
        RankLost: a rank is gone, or did not come within the time that the group was made with.
    """

    @property
    def rank(self) -> int:
        """This rank's number, from 0."""
        ...

    @property
    def size(self) -> int:
        """Ranks of the group."""
        ...

    @property
    def backend(self) -> str:
        """``gloo``, ``nccl``, ``mpi`` or ``alone``."""
        ...

    def sum_(self, vector: Tensor) -> None:
        """Add up every rank's vector, in place: float32 or float64, contiguous, on any device.

        All ranks end with the same bits.
        """
        ...

    def gather(self, message: str) -> list[str]:
        """Every rank's message, in the order of ranks, on every rank."""
        ...

    def close(self) -> None:
        """Leave the group, without waiting for other ranks."""
        ...


class Alone:
    """The group of one."""

    rank = 0
    size = 1
    backend = "alone"

    def sum_(self, vector: Tensor) -> None:
        """It is the sum."""

    def gather(self, message: str) -> list[str]:
        """Its own."""
        return [message]

    def close(self) -> None:
        """Do nothing: there is no group."""


ALONE = Alone()

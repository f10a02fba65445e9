"""A channel of words and tensors between two processes of one machine."""

from __future__ import annotations

import math
import mmap
import os
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State

_ALIGNED = 64
"""Bytes: every tensor begins at a multiple of these."""


class _Place(NamedTuple):
    """Where a tensor lies in shared memory."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    """In bytes."""


class Channel:
    """One end of a line between a process and its child, which take turns to speak.

    Words go through a pipe, tensors through memory that both have mapped: one copy to write them,
    one to read them. The memory is a file without a name, so it is gone with the processes. Words
    are pickled, as nothing is that could come from elsewhere: the ends of the pipe are inherited.
    """

    def __init__(self, connection: Connection, outgoing: int, incoming: int) -> None:
        """Speak by a connection, and by files of these descriptors, which may be empty."""
        self._connection = connection
        self._outgoing, self._incoming = _Memory(outgoing), _Memory(incoming)

    def send(self, word: object, tensors: State | None = None) -> None:
        """Say a word, and give copies of some tensors with it.

        The other end must have answered what was sent before: its tensors are written over.

        Raises:
            OSError: the process at the other end is gone.
        """
        places, size = [], 0
        for name, tensor in (tensors or {}).items():
            places.append(_Place(name, tensor.dtype, tuple(tensor.shape), size))
            size += -(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED
        self._outgoing.reserve(size)
        for place in places:
            # A GPU's tensors go by way of the host.
            self._outgoing.view(place).copy_((tensors or {})[place.name])
        self._connection.send((word, size, places))

    def receive(self) -> tuple[Any, State]:
        """The next word and its tensors, on the CPU, which are the caller's; waits for them.

        Raises:
            EOFError, OSError: the process at the other end is gone.
        """
        word, size, places = self._connection.recv()
        self._incoming.reserve(size)
        return word, {place.name: self._incoming.view(place).clone() for place in places}


class _Memory:
    """A file that two processes have mapped; who writes makes it longer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None

    def reserve(self, size: int) -> None:
        """Map at least ``size`` bytes."""
        if size and (self._map is None or len(self._map) < size):
            if os.fstat(self._descriptor).st_size < size:
                os.ftruncate(self._descriptor, size)
            self._map = mmap.mmap(self._descriptor, 0)  # 0: the whole file

    def view(self, place: _Place) -> Tensor:
        """The tensor there, not copied."""
        count = math.prod(place.shape)
        if not count:
            return torch.empty(place.shape, dtype=place.dtype)
        assert self._map is not None
        flat = torch.frombuffer(self._map, dtype=place.dtype, count=count, offset=place.begin)
        return flat.view(place.shape)

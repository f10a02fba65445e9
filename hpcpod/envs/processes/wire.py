"""Commands and messages between a batched environment and one of its processes."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from hpcpod.envs.gymnasium_make import Wrapper
from hpcpod.envs.vec_env import State
from hpcpod.errors import UserError

_LENGTH = 16
"""Digits, padded with spaces, of each of the two numbers that begin a message: the bytes of its
JSON, and those of its tensors."""


class Command(IntEnum):
    """A command, as the number that comes through the eventfd."""

    STEP = 1
    """Read the actions, write what a step gives."""
    RESET = 2
    """Read the seeds, write the observations."""
    SAVE = 3
    """Send the state on the wire."""
    LOAD = 4
    """Go on from the state that comes on the wire."""
    CLOSE = 5
    """Close the environments and wait for the end."""


def plain(env: str, wrappers: Sequence[Wrapper], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """The part of a request that names what to make: ``env``, ``wrappers`` and ``kwargs``.

    Raises:
        UserError: it can't be said in JSON.
    """
    made: dict[str, Any] = {"env": env}
    try:
        made["wrappers"] = [
            w if isinstance(w, str) else {k: dict(v) for k, v in w.items()} for w in wrappers
        ]
        made["kwargs"] = dict(kwargs)
        same = json.loads(json.dumps(made)) == made
    except (AttributeError, TypeError, ValueError):
        same = False
    if not same:
        raise UserError(
            f"{env}: wrappers and kwargs go to other processes as JSON, so they must be made of"
            " texts, numbers, lists and mappings with texts as keys"
        )
    return made


class Wire:
    """Messages of JSON and named tensors over a socket; no pickle."""

    def __init__(self, end: socket.socket, still_there: Callable[[], None] | None = None) -> None:
        """Take an end of a connected pair.

        Args:
            end: the socket; its maker closes it.
            still_there: asked whenever the socket's timeout passes with nothing coming or going;
                it raises if the process at the other end is gone.
        """
        self._end = end
        self._still_there = still_there or (lambda: None)

    def send(self, message: Mapping[str, Any], tensors: State | None = None) -> None:
        """Send a message; ``tensors`` of any dtype and device."""
        forms, parts = [], []
        for name, value in (tensors or {}).items():
            plain = value.detach().cpu().contiguous()
            forms.append([name, str(plain.dtype).removeprefix("torch."), list(plain.shape)])
            if plain.numel():  # numpy's strides of no number at all are 0, which no view takes
                parts.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        payload = b"".join(parts)
        said = json.dumps({"message": message, "tensors": forms}).encode()
        self._put(f"{len(said):<{_LENGTH}}{len(payload):<{_LENGTH}}".encode() + said + payload)

    def receive(self) -> tuple[dict[str, Any], State]:
        """The next message and its tensors, on the CPU.

        Raises:
            EOFError: the other end is closed.
        """
        head = self._take(2 * _LENGTH)
        said = json.loads(self._take(int(head[:_LENGTH])))
        payload = np.asarray(memoryview(self._take(int(head[_LENGTH:]))))
        tensors, at = {}, 0
        for name, dtype, shape in said["tensors"]:
            made = torch.empty(shape, dtype=getattr(torch, dtype))
            raw = made.view(-1).view(torch.uint8).numpy()
            raw[:] = payload[at : at + len(raw)]
            at += len(raw)
            tensors[name] = made
        return said["message"], tensors

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._end.send(left) :]
            except TimeoutError:
                self._still_there()

    def _take(self, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            try:
                got = self._end.recv_into(left)
            except TimeoutError:
                self._still_there()
                continue
            if not got:
                raise EOFError("the other end of the wire is closed")
            left = left[got:]
        return data

"""Memory that a batched environment shares with its processes."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from hpcpod.envs.arrays import Array, Form, form_of
from hpcpod.envs.vec_env import EnvSpec

_ALIGNMENT = 64
"""Bytes of a cache line: two arrays never share one."""


def nameless_file() -> int:
    """Descriptor of a new file in memory, which is gone when no process has it open any more.

    Conda's Pythons have no ``memfd_create``: they are built for a C library that lacks it. What
    they take instead may be smaller than the memory: ``/dev/shm``.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hpcpod")
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        return os.dup(file.fileno())


def shared_arrays(
    file: int, spec: EnvSpec, processes: int, action: Form | None = None
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Map the file, which is made large enough, as the arrays of the whole batch.

    Each process uses the rows of its own environments. The handshake decides which side reads and
    writes: between two steps all is the batch's, in a step all is the processes'.

    Args:
        file: descriptor, of a ``nameless_file``.
        spec: of the whole batch.
        processes: how many there are.
        action: of one environment, if it is not the policy's.

    Returns:
        By name, the fields of a ``Step``; ``seeds`` [N], with which ``reset`` begins; ``action``
        [N, *action]; ``failed`` [processes], true if an error comes on the process's wire. And the
        layout of the file: its bytes, and by name each array's begin, shape and dtype.
    """
    n = spec.num_envs
    batch = {"seeds": ((), np.dtype(np.int64)), "action": action or form_of(spec.action)}
    batch |= dict.fromkeys(("obs", "next_obs"), form_of(spec.observation))
    batch |= {"reward": ((), np.dtype(np.float32))}
    batch |= dict.fromkeys(("terminated", "truncated", "valid"), ((), np.dtype(np.bool_)))
    forms = {name: ((n, *shape), dtype) for name, (shape, dtype) in batch.items()}
    forms["failed"] = (processes,), np.dtype(np.bool_)
    starts, end = {}, 0
    for name, (shape, dtype) in forms.items():
        starts[name] = end
        end += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    os.ftruncate(file, end)
    memory = mmap.mmap(file, end)
    arrays: dict[str, Array] = {
        name: np.ndarray(shape, dtype, memory, starts[name])
        for name, (shape, dtype) in forms.items()
    }
    places = {n: [starts[n], list(shape), dtype.str] for n, (shape, dtype) in forms.items()}
    return arrays, {"bytes": end, "arrays": places}

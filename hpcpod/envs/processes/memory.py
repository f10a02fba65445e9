"""Memory that a batched environment shares with its processes."""

from __future__ import annotations

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


class SharedArrays:
    """Arrays of the whole batch that N environments read and write in a step.

    Each process uses the rows of its own environments. Who reads and who writes is decided by the
    handshake: between two steps all is the batch's, in a step all is the processes'.
    """

    def __init__(
        self, file: int, spec: EnvSpec, processes: int, action: Form | None = None
    ) -> None:
        """Map the file, which is made large enough.

        Args:
            file: descriptor, of a ``nameless_file``.
            spec: of the whole batch.
            processes: how many there are.
            action: of one environment, if it is not the policy's.
        """
        n = spec.num_envs
        forms = {
            "seeds": ((n,), np.dtype(np.int64)),
            "action": _batch(action or form_of(spec.action), n),
            "obs": _batch(form_of(spec.observation), n),
            "next_obs": _batch(form_of(spec.observation), n),
            "reward": ((n,), np.dtype(np.float32)),
            "terminated": ((n,), np.dtype(np.bool_)),
            "truncated": ((n,), np.dtype(np.bool_)),
            "valid": ((n,), np.dtype(np.bool_)),
            "failed": ((processes,), np.dtype(np.bool_)),
        }
        starts, end = {}, 0
        for name, (shape, dtype) in forms.items():
            starts[name] = end
            end += -(-int(np.prod(shape)) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        os.ftruncate(file, end)
        memory = mmap.mmap(file, end)
        arrays: dict[str, Any] = {
            name: np.ndarray(shape, dtype, memory, starts[name])
            for name, (shape, dtype) in forms.items()
        }
        places = {n: [starts[n], list(shape), dtype.str] for n, (shape, dtype) in forms.items()}
        self.places: dict[str, Any] = {"bytes": end, "arrays": places}
        """Layout of the file: its bytes, and by name each array's begin, shape and dtype."""
        self.seeds: Array = arrays["seeds"]
        """int64 [N], what ``reset`` begins with."""
        self.action: Array = arrays["action"]
        """[N, *action]."""
        self.obs: Array = arrays["obs"]
        """[N, *observation]."""
        self.next_obs: Array = arrays["next_obs"]
        """[N, *observation]."""
        self.reward: Array = arrays["reward"]
        """float32 [N]."""
        self.terminated: Array = arrays["terminated"]
        """bool [N]."""
        self.truncated: Array = arrays["truncated"]
        """bool [N]."""
        self.valid: Array = arrays["valid"]
        """bool [N]."""
        self.failed: Array = arrays["failed"]
        """bool [processes]: whether an error comes on the process's wire."""


def _batch(form: Form, count: int) -> Form:
    return (count, *form[0]), form[1]

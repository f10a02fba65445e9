"""How torch computes in a training process: threads, precision, very small numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hpcpod.config.schema import RunConfig
from hpcpod.envs.threads import env_threads, set_env_threads


def set_numerics(config: RunConfig) -> None:
    """Set this process up as a run wants it."""
    torch.set_num_threads(config.pod.torch_threads)
    set_env_threads(config.resources.cpus_per_pod)
    if config.pod.matmul == "bfloat16":
        _autocast(True)
    else:
        torch.set_float32_matmul_precision(config.pod.matmul)
    # Adam's moments fade away through numbers that take a CPU a hundred times as long.
    torch.set_flush_denormal(True)


@contextmanager
def numerics(config: RunConfig) -> Iterator[None]:
    """The same for a while; then all is as before."""
    threads, envs = torch.get_num_threads(), env_threads()
    precision, flushed = torch.get_float32_matmul_precision(), _flushes()
    casts = torch.is_autocast_enabled("cpu")
    set_numerics(config)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_float32_matmul_precision(precision)
        _autocast(casts)
        torch.set_num_threads(threads)
        set_env_threads(envs)


def _autocast(on: bool) -> None:
    """Have this thread multiply in bfloat16, or not, until it is told otherwise."""
    # It would remember cast weights until a ``with torch.autocast`` ends, and ours never does.
    torch.set_autocast_cache_enabled(not on)
    for device in ("cpu", "cuda"):
        torch.set_autocast_enabled(device, on)
        torch.set_autocast_dtype(device, torch.bfloat16)


def _flushes() -> bool:
    """Whether this thread takes very small numbers for 0."""
    return float(torch.tensor([1e-40]) * torch.ones(1)) == 0.0

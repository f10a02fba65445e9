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
    torch.set_float32_matmul_precision(config.pod.matmul)
    # Adam's moments fade away through numbers that take a CPU a hundred times as long.
    torch.set_flush_denormal(True)


@contextmanager
def numerics(config: RunConfig) -> Iterator[None]:
    """The same for a while; then all is as before."""
    threads, envs = torch.get_num_threads(), env_threads()
    precision, flushed = torch.get_float32_matmul_precision(), _flushes()
    set_numerics(config)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
        set_env_threads(envs)


def _flushes() -> bool:
    """Whether this thread takes very small numbers for 0."""
    return float(torch.tensor([1e-40]) * torch.ones(1)) == 0.0

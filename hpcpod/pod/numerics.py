"""Numerics of torch in a training process: threads, precision, denormal numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.envs.threads import given_threads, set_env_threads

_DEVICES = ("cpu", "cuda")


def set_numerics(config: RunConfig) -> None:
    """Set this process up as a run wants it."""
    # SAC by two threads (SB3): 112 updates/s, 9 beside a busy process; by one 86 and 78.
    torch.set_num_threads(config.pod.torch_threads)
    set_env_threads(shape_of(config).cpus_per_rank)
    casts = config.pod.matmul == "bfloat16"
    # Medium is oneDNN's bfloat16, in a CPU's AMX: SAC 26 % faster, PPO on Ant 12 %.
    torch.set_float32_matmul_precision("highest" if casts else config.pod.matmul)
    # The cache keeps cast weights until a ``with torch.autocast`` ends, and this one never does.
    torch.set_autocast_cache_enabled(not casts)
    for device in _DEVICES:
        torch.set_autocast_enabled(device, casts)
        if casts:
            torch.set_autocast_dtype(device, torch.bfloat16)
    set_deterministic(config.pod.deterministic)
    # Adam's moments fade away through numbers that take a CPU a hundred times as long.
    torch.set_flush_denormal(True)  # SAC: 5 % faster in float32, 24 % with medium


def set_deterministic(wanted: bool) -> None:
    """Have kernels of a GPU add in one order, or in any. Those of a CPU always add in one.

    On an H200 without it, two runs of one seed differed in bits with PPO and DQN of images, with
    prioritised DQN and with DDPG.
    """
    if wanted:  # read once, when cuBLAS is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if "torch._inductor" in sys.modules:
        torch.use_deterministic_algorithms(wanted)
    else:  # that would load torch's compiler, 0.9 s of each process, for what it reads here
        os.environ.pop("TORCHINDUCTOR_DETERMINISTIC", None)
        if wanted:
            os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
        torch.set_deterministic_debug_mode("error" if wanted else "default")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it costs time


@contextmanager
def numerics(config: RunConfig) -> Iterator[None]:
    """The same for a while; then all is as before."""
    threads, envs = torch.get_num_threads(), given_threads()
    precision, flushed = torch.get_float32_matmul_precision(), _flushes()
    casts = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES]
    cached = torch.is_autocast_cache_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    set_numerics(config)
    try:
        yield
    finally:
        set_deterministic(deterministic)
        torch.set_flush_denormal(flushed)
        torch.set_float32_matmul_precision(precision)
        torch.set_autocast_cache_enabled(cached)
        for device, (enabled, dtype) in zip(_DEVICES, casts, strict=True):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_num_threads(threads)
        set_env_threads(envs)


def _flushes() -> bool:
    """True if this thread takes very small numbers for 0."""
    return float(torch.tensor([1e-40]) * torch.ones(1)) == 0.0  # denormal: below 1.2e-38

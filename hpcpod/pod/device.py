"""The device of a pod's networks, buffers and simulators."""

from __future__ import annotations

import logging

import torch

from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError
from hpcpod.pod.ranks.rank import Rank

log = logging.getLogger(__name__)


def device_of(config: RunConfig) -> str:
    """The device on which a pod of this run trains: ``cpu`` or ``cuda``, the process's current
    one."""
    if config.pod.device != "auto":
        return config.pod.device
    if config.resources.gpus_per_pod == 0:
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    log.warning("torch %s sees no GPU here: this pod trains on the CPU", torch.__version__)
    return "cpu"


def own_device(rank: Rank, device: str) -> torch.device:
    """The rank's own device, which becomes the process's current one.

    A rank takes the GPU of its local number; where Slurm has narrowed CUDA_VISIBLE_DEVICES to one
    for each task already, that one.

    Raises:
        LaunchError: fewer GPUs are visible than there are ranks on this node.
    """
    if device == "cpu":
        return torch.device("cpu")
    number = gpu_number(rank, torch.cuda.device_count())
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def gpu_number(rank: Rank, visible: int) -> int:
    """The number of this rank's GPU among the visible ones.

    Raises:
        LaunchError: there are fewer than ranks on this node, and more than one.
    """
    if visible >= rank.local_size:
        return rank.local_rank
    if visible == 1:  # narrowed by srun or by the user; that no other rank has it is checked later
        return 0
    raise LaunchError(
        f"rank {rank.number} sees {visible} GPUs on its node, where {rank.local_size} ranks run:"
        " ask for as many (resources.gpus_per_pod), or for fewer ranks (pod.ranks)"
    )


def gpu_name(device: torch.device) -> str:
    """The name of a GPU, unique on whatever node."""
    if device.type == "cpu":
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)

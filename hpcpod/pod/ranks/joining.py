"""How a rank becomes one of its group: which backend, and what is checked before any exchange."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from hpcpod.errors import LaunchError
from hpcpod.pod.ranks.communicator import Alone, Communicator
from hpcpod.pod.ranks.place import Place
from hpcpod.storage.disk import Disk

log = logging.getLogger(__name__)

Backend = Literal["auto", "gloo", "nccl", "mpi"]


@dataclass(frozen=True)
class Meeting:
    """What all ranks of a pod know before they have met."""

    disk: Disk
    """Of the run folder."""
    folder: Path
    """Where rank 0 writes its address."""
    name: str
    """Of this meeting, new each time that the ranks are started."""
    size: int
    """Ranks that the slot has asked for."""
    seconds: float
    """After which a rank that does not come, or answer, is taken for lost."""
    agreed: Mapping[str, str]
    """What must be the same on all ranks, by a name that a message can use."""


def join(place: Place, meeting: Meeting, backend: Backend, device: torch.device) -> Communicator:
    """Meet the other ranks.

    Raises:
        LaunchError: whoever started the ranks has not told them of each other, or they were not
            started alike.
        RankLost: not all of them came.
    """
    if place.size != meeting.size:
        raise LaunchError(_strangers(place, meeting.size))
    if meeting.size == 1:
        return Alone()
    chosen, why = choose(backend, device)
    if place.rank == 0:
        log.info("%d ranks exchange by %s: %s", meeting.size, chosen, why)
    group = _group(place, meeting, chosen, device)
    try:
        _agree(group, meeting.agreed)
    except BaseException:
        group.close()
        raise
    return group


def choose(backend: Backend, device: torch.device) -> tuple[Literal["gloo", "nccl", "mpi"], str]:
    """The backend that ``auto`` stands for on this device, and the reason in words."""
    if backend != "auto":
        return backend, "the configuration says so"
    if device.type == "cuda" and torch.distributed.is_nccl_available():
        return "nccl", "each rank has a GPU, and this torch has NCCL"
    if device.type == "cuda":
        return "gloo", "this torch has no NCCL"
    return "gloo", "the ranks train on CPUs"


def _group(
    place: Place, meeting: Meeting, backend: Literal["gloo", "nccl", "mpi"], device: torch.device
) -> Communicator:
    if backend == "mpi":
        try:
            from hpcpod.pod.ranks.mpi import Mpi
        except ImportError as error:
            raise LaunchError(
                f"pod.fusion.backend is mpi, but mpi4py can't be imported: {error};"
                " pip install 'hpcpod[mpi]', or use gloo"
            ) from error
        group = Mpi()
        if group.size != place.size:
            raise LaunchError(_strangers(Place(told_by="MPI"), place.size))
        return group

    from hpcpod.pod.ranks.distributed import Distributed
    from hpcpod.pod.ranks.rendezvous import interface_to, meet, own_address

    store = meet(place, meeting.disk, meeting.folder, meeting.name, meeting.seconds)
    if "GLOO_SOCKET_IFNAME" not in os.environ:
        # By default gloo asks for this node's own name, which need not resolve: it then hangs.
        interface = interface_to(own_address(place, os.environ))
        if interface is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = interface
    return Distributed(place, store, backend, device, meeting.seconds)


def _agree(group: Communicator, agreed: Mapping[str, str]) -> None:
    """See that all ranks were started alike.

    Raises:
        LaunchError: they were not.
    """
    told = [json.loads(text) for text in group.gather(json.dumps(dict(agreed)))]
    for name in agreed:
        for rank, other in enumerate(told):
            if other.get(name) != told[0].get(name):
                raise LaunchError(
                    f"the ranks disagree on {name}: rank 0 has {told[0].get(name)}, rank {rank}"
                    f" has {other.get(name)}; they must be started together, from one run folder"
                )


def _strangers(place: Place, size: int) -> str:
    if place.size > 1:
        return f"{size} ranks were asked for, but {place.told_by} has started {place.size}"
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if place.told_by == "MPI" and tasks != "1":
        return (
            f"srun has started {tasks} tasks, but MPI knows of one alone: its MPI was not built for"
            " this srun's PMI; set pod.fusion.mpi to one that `srun --mpi=list` names, most often"
            " pmix"
        )
    return (
        f"{size} ranks were asked for, but nobody has told this process of the others: start them"
        " by srun, mpirun or torchrun"
    )

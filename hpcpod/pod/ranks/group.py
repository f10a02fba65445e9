"""The group of a pod's ranks: the choice of a backend, and the checks before any exchange."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist

from hpcpod._version import __version__
from hpcpod.config.loader import to_mapping
from hpcpod.config.placement import ranks_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError
from hpcpod.pod.device import device_of, gpu_name, own_device
from hpcpod.pod.ranks.communicator import Alone, Communicator
from hpcpod.pod.ranks.rank import Rank, rank_of
from hpcpod.storage.disk import Disk
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)

Backend = Literal["auto", "gloo", "nccl", "mpi"]


@dataclass(frozen=True)
class Meeting:
    """The facts that all ranks of a pod know before they have met."""

    disk: Disk
    """Of the run folder."""
    folder: Path
    """Folder in which rank 0 writes its address."""
    name: str
    """Name of this meeting, new each time that the ranks are started."""
    size: int
    """Ranks that the slot has asked for."""
    seconds: float
    """Timeout after which a rank that does not come, or answer, is taken for lost."""
    agreed: Mapping[str, str]
    """Facts that must be the same on all ranks, by a name that a message can use."""


def join_run(rank: Rank, folder: RunFolder, config: RunConfig, meeting: str) -> Communicator:
    """Meet the other ranks of a run's pod, with what each must have alike.

    Raises:
        LaunchError: as ``join`` does, or there are fewer GPUs here than ranks.
        RankLost: as ``join`` does.
    """
    agreed = {
        "the run's configuration": _digest(folder.config),
        "how often the job was requeued": os.environ.get("SLURM_RESTART_COUNT", "0"),
        "the version of hpcpod": __version__,
        "the version of torch": torch.__version__,
    }
    fusion = config.pod.fusion
    where = Meeting(
        folder.disk, folder.path / "rendezvous", meeting, ranks_of(config), fusion.seconds, agreed
    )
    return join(rank, where, fusion.backend, own_device(rank, device_of(config)))


def join_peers(config: RunConfig) -> Communicator:
    """The processes that torchrun, mpirun or srun has started with this one; alone if it is.

    They meet at MASTER_ADDR and MASTER_PORT, as torchrun sets them, or by MPI.

    Raises:
        LaunchError: the environment does not say where, or as ``join`` does.
        RankLost: not all of them came.
    """
    rank, fusion = rank_of(os.environ), config.pod.fusion
    size = rank.size if config.pod.ranks is None else config.pod.ranks
    if rank.size != size:
        raise LaunchError(_strangers(rank, size))
    if size == 1:
        return Alone()
    device = own_device(rank, device_of(config))
    chosen, _ = choose(fusion.backend, device)
    if chosen == "mpi":
        group: Communicator = _by_mpi(rank)
    else:
        from hpcpod.pod.ranks.distributed import Distributed

        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if missing:
            raise LaunchError(
                f"{rank.started_by} has started {size} ranks, but {' and '.join(missing)}, where"
                " they meet, is not set: use torchrun, or set pod.fusion.backend to mpi"
            )
        store, _, _ = next(dist.rendezvous("env://", rank.number, size))  # type: ignore[attr-defined]
        group = Distributed(rank, store, chosen, device, fusion.seconds)
    return _checked(group, {"the configuration": _digest(to_mapping(config))}, device)


def join(rank: Rank, meeting: Meeting, backend: Backend, device: torch.device) -> Communicator:
    """Meet the other ranks.

    Raises:
        LaunchError: the launcher has not numbered the ranks, or they were not
            started alike.
        RankLost: not all of them came.
    """
    if rank.size != meeting.size:
        raise LaunchError(_strangers(rank, meeting.size))
    if meeting.size == 1:
        return Alone()
    chosen, why = choose(backend, device)
    if rank.number == 0:
        log.info("%d ranks exchange by %s: %s", meeting.size, chosen, why)
    if chosen == "mpi":
        group: Communicator = _by_mpi(rank)
    else:
        from hpcpod.pod.ranks.distributed import Distributed
        from hpcpod.pod.ranks.rendezvous import address_file, interface_to, meet, own_address

        store = meet(rank, meeting.disk, meeting.folder, meeting.name, meeting.seconds)
        if "GLOO_SOCKET_IFNAME" not in os.environ:
            # By default gloo asks for this node's own name, which need not resolve: it then hangs.
            interface = interface_to(own_address(rank, os.environ))
            if interface is not None:
                os.environ["GLOO_SOCKET_IFNAME"] = interface
        group = Distributed(rank, store, chosen, device, meeting.seconds)
        if rank.number == 0:
            meeting.disk.remove(address_file(meeting.folder, meeting.name))  # all are there
    return _checked(group, meeting.agreed, device)


def _checked(group: Communicator, agreed: Mapping[str, str], device: torch.device) -> Communicator:
    """The group, once all of its ranks are found to fit each other."""
    try:
        _agree(group, agreed)
        _own_gpu_each(group, gpu_name(device))
    except BaseException:
        group.close()
        raise
    return group


def choose(backend: Backend, device: torch.device) -> tuple[Literal["gloo", "nccl", "mpi"], str]:
    """The backend that ``auto`` stands for on this device, and the reason in words."""
    if backend != "auto":
        return backend, "the configuration says so"
    if device.type == "cuda" and torch.distributed.is_nccl_available():
        return "nccl", "each rank has a GPU, and this torch has NCCL"  # never run with several GPUs
    if device.type == "cuda":
        return "gloo", "this torch has no NCCL"
    return "gloo", "the ranks train on CPUs"


def _by_mpi(rank: Rank) -> Communicator:
    if rank.started_by == "srun" and not {"PMIX_RANK", "PMI_RANK"} & set(os.environ):
        # Seen before MPI_Init, in which Open MPI ends a process that finds no PMI.
        raise LaunchError(_wrong_pmi(rank.size))
    try:
        from hpcpod.pod.ranks.mpi import Mpi
    except ImportError as error:
        raise LaunchError(
            f"pod.fusion.backend is mpi, but mpi4py can't be imported: {error};"
            " pip install 'hpcpod[mpi]', or use gloo"
        ) from error
    group = Mpi()
    if group.size != rank.size:
        raise LaunchError(_strangers(Rank(started_by="MPI"), rank.size))
    return group


def _agree(group: Communicator, agreed: Mapping[str, str]) -> None:
    """See that all ranks were started alike.

    Raises:
        LaunchError: they were not.
    """
    facts = [json.loads(text) for text in group.gather(json.dumps(dict(agreed)))]
    for name in agreed:
        for rank, other in enumerate(facts):
            if other.get(name) != facts[0].get(name):
                raise LaunchError(
                    f"the ranks disagree on {name}: rank 0 has {facts[0].get(name)}, rank {rank}"
                    f" has {other.get(name)}; they must be started together, from one run folder"
                )


def _digest(config: object) -> str:
    text = json.dumps(config, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _own_gpu_each(group: Communicator, name: str) -> None:
    """See that no two ranks train on one GPU: NCCL would refuse in words of its own, or hang.

    Raises:
        LaunchError: two do.
    """
    names = group.gather(name)  # by UUID: numbers differ where Slurm has narrowed them
    for rank, other in enumerate(names):
        first = names.index(other)
        if other and first < rank:
            raise LaunchError(
                f"ranks {first} and {rank} have the same GPU, {other}: give each its own"
                " (resources.gpus_per_pod), or start fewer ranks (pod.ranks)"
            )


def _strangers(rank: Rank, size: int) -> str:
    if rank.size > 1:
        return f"{size} ranks were asked for, but {rank.started_by} has started {rank.size}"
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", "1"))
    if rank.started_by == "MPI" and tasks > 1:
        return _wrong_pmi(tasks)
    return (
        f"{size} ranks were asked for, but no launcher has told this process of the others:"
        " start them by srun, mpirun or torchrun"
    )


def _wrong_pmi(tasks: int) -> str:
    try:
        known = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, check=False)
        listed = {name for name in ("pmix", "pmi2") if name in known.stdout + known.stderr}
    except OSError:
        listed = set()
    # pmix first: with Debian's Open MPI 4.1.4 it works on Slurm 22.05, pmi2 and none do not.
    remedy = next(iter(sorted(listed, reverse=True)), "one that `srun --mpi=list` names")
    return (
        f"srun has started {tasks} tasks, but MPI would know of one alone: it was not told of the"
        f" others by a PMI that it knows; set pod.fusion.mpi to {remedy}"
    )

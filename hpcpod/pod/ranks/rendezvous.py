"""The rendezvous of ranks by a file in the run folder, without a port that is agreed on.

Rank 0 binds a free port first and writes where into the run folder; the others poll for it. A port
that is derived from the job's number collides with ephemeral ports, and names of nodes need not
resolve: torch then hangs.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from hpcpod.pod.ranks.communicator import RankLost
from hpcpod.pod.ranks.rank import Rank
from hpcpod.storage.disk import Disk

_POLL_SECONDS = 0.02
LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915
"""Linux: the address of a network interface."""


def meet(rank: Rank, disk: Disk, folder: Path, name: str, seconds: float) -> Store:
    """The store of rank 0, once this rank has found it.

    Args:
        rank: this process's.
        disk: of the run folder.
        folder: in it, on the filesystem that all ranks share.
        name: of this meeting, different each time: an address from before must not be found.
        seconds: to wait for rank 0's address.

    Raises:
        RankLost: rank 0 did not write its address, or does not answer there.
    """
    path, timeout = address_file(folder, name), datetime.timedelta(seconds=seconds)
    if rank.number == 0:
        host = own_address(rank, os.environ)
        # Port 0: the kernel picks a free one. One that follows from the job's number collides with
        # ephemeral ports.
        listening = socket.create_server((host, 0))
        port: int = listening.getsockname()[1]
        store: Store = dist.TCPStore(  # type: ignore[attr-defined]
            host, port, rank.size, is_master=True, timeout=timeout,
            wait_for_workers=False, master_listen_fd=listening.detach(),
        )  # fmt: skip
        disk.publish(path, json.dumps({"host": host, "port": port}).encode())
        return store
    deadline = time.monotonic() + seconds
    while (found := disk.read(path)) is None:
        if time.monotonic() > deadline:
            raise RankLost(
                f"rank {rank.number} waited {seconds:g} s for {path}: rank 0 did not start, or"
                " this node does not see the run folder"
            )
        time.sleep(_POLL_SECONDS)
    address = json.loads(found)
    host, port = address["host"], address["port"]
    try:
        joined: Store = dist.TCPStore(  # type: ignore[attr-defined]
            host, port, rank.size, is_master=False, timeout=timeout
        )
    except RuntimeError as error:
        raise RankLost(f"rank 0 does not answer at {host}:{port}: {error}") from error
    return joined


def address_file(folder: Path, name: str) -> Path:
    """The file in which rank 0 writes its address."""
    return folder / f"{name}.json"


def own_address(rank: Rank, environment: Mapping[str, str]) -> str:
    """The address at which rank 0 listens: this node alone if all ranks are here, else Slurm's."""
    if rank.local_size == rank.size:
        return LOOPBACK
    given = environment.get("SLURM_LAUNCH_NODE_IPADDR") or environment.get("MASTER_ADDR")
    return given or socket.gethostbyname(socket.gethostname())


def interface_to(host: str) -> str | None:
    """Name of the network interface that leads there, for GLOO_SOCKET_IFNAME; None: unknown."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # sends nothing
        except OSError:
            return None
        own = probe.getsockname()[0]  # from which the kernel would send
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                request = struct.pack("256s", name.encode())
                # struct ifreq: 16 bytes of name, 2 of family, 2 of port, then the address.
                found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24]
                if socket.inet_ntoa(found) == own:
                    return name
    return None

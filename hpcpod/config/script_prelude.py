"""The shell lines before Python in a batch script: what the site and the configuration want."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hpcpod.config.cluster import ClusterConfig

SCRATCH = "HPCPOD_SCRATCH"
"""The environment variable that holds the folder on a node's own disk."""

_CACHES = {
    "CUDA_CACHE_PATH": "cuda",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "WARP_CACHE_PATH": "warp",
}
"""Compilers for GPUs: their caches are else below the home folder, a network disk that all slots
share."""


def prelude(cluster: ClusterConfig, nodes: int = 1) -> list[str]:
    """``cluster.setup`` first: what follows may name what it sets.

    Args:
        cluster: the section of the configuration.
        nodes: of the job.
    """
    lines = list(cluster.setup)
    if cluster.network is not None:  # else the site's: NVIDIA advises to set no NCCL_* in scripts
        name = shlex.quote(cluster.network)
        lines.append(f"export NCCL_SOCKET_IFNAME={name} GLOO_SOCKET_IFNAME={name}")
    if cluster.scratch is not None:
        # The batch script itself runs on the job's first node alone.
        everywhere = f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 "
        caches = [f'{name}="${SCRATCH}/{folder}"' for name, folder in _CACHES.items()]
        lines += [
            f'export {SCRATCH}="{cluster.scratch}/hpcpod-$UID"',
            f'{everywhere if nodes > 1 else ""}mkdir -p -- "${SCRATCH}" || exit 1',
            f'export TMPDIR="${SCRATCH}" \\',
            f"    {' '.join(caches[:2])} \\",
            f"    {' '.join(caches[2:])}",
        ]
    return lines


def exported(lines: Sequence[str]) -> set[str]:
    """The names of the environment variables that shell lines export, as far as can be seen."""
    text = "\n".join(lines).replace("\\\n", " ")
    names: set[str] = set()
    for line in text.splitlines():
        try:
            command, *words = shlex.split(line, comments=True) or [""]
        except ValueError:  # a line of a longer construct
            continue
        if command == "export":
            found = (re.match(r"[A-Za-z_]\w*(?==|$)", word) for word in words)
            names.update(match[0] for match in found if match)
    return names

"""GPUs of this machine, found without torch."""

from __future__ import annotations

import itertools
import os
import re
import subprocess

_DEVICE = re.compile(r"\d+|(GPU|MIG)-.+")  # Slurm sets NoDevFiles for a job without GPUs


def visible_gpus() -> list[str]:
    """The GPUs of processes started here, each by a name that CUDA_VISIBLE_DEVICES takes.

    Where that variable is not set, nvidia-smi lists them: it sees what a container may use.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        names = [name.strip() for name in named.split(",")]
        # As CUDA reads it: what follows a name of no device is not there.
        return list(itertools.takewhile(_DEVICE.fullmatch, names))
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):  # no driver here, or one that hangs
        return []
    # Below a GPU that is split, its MIG instances have indented lines of their own.
    count = sum(line.startswith("GPU ") for line in listing.splitlines())
    return [str(number) for number in range(count)]

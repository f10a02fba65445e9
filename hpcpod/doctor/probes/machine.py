"""A machine's equipment for a slot: Python, torch, GPUs, containers, scratch, a user name.

``python -m hpcpod.doctor.probes.machine`` looks and prints JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import pwd
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcpod._process import PYTHON, ending
from hpcpod._version import __version__
from hpcpod.doctor.commands import ask
from hpcpod.doctor.finding import Finding, decide
from hpcpod.doctor.probes.disk_space import TOO_LITTLE, mount_of
from hpcpod.records.codec import encode
from hpcpod.run.text import size

TORCH_SECONDS = 180.0
"""For importing torch: from a cold shared filesystem it takes minutes."""

_TORCH = """\
import json, torch
gpus = torch.cuda.device_count()
print(json.dumps([torch.__version__, torch.version.cuda or "", gpus]))
"""
_RUNTIMES = ("enroot", "apptainer", "singularity", "podman")
_SCRATCH = ("SLURM_TMPDIR", "TMPDIR", "LOCAL_SCRATCH", "SCRATCH")


@dataclass(frozen=True)
class Torch:
    """The result of importing torch."""

    error: str
    """Failure of the import; else empty."""
    seconds: float
    version: str = ""
    cuda: str = ""
    """The CUDA that it was built for; empty for a build for CPUs."""
    gpus: int = 0
    """GPUs that it sees."""


@dataclass(frozen=True)
class Scratch:
    """A folder for what need not last."""

    path: str
    type: str
    free: float
    """Bytes; 0 if nothing can be written."""


@dataclass(frozen=True)
class MachineFacts:
    """Facts of one machine, seen by a process that was started as a slot is."""

    node: str
    """Slurm's name of it, else its host name."""
    boot: str
    """Differs between any two running kernels; empty if unknown."""
    python: str
    """The interpreter."""
    version: str
    """Its version."""
    hpcpod: str
    """The version of hpcpod that it imports."""
    user: str
    """The name behind the user's number; empty if there is none."""
    uid: int
    torch: Torch
    visible: str | None
    """CUDA_VISIBLE_DEVICES."""
    listed: int | None
    """GPUs that nvidia-smi lists; None if there is no nvidia-smi."""
    mpi4py: bool
    """It is installed; whether it works, the ranks find out."""
    containers: tuple[str, ...]
    """Runtimes on the PATH."""
    scratch: tuple[Scratch, ...]


def look() -> MachineFacts:
    """Look around; takes as long as torch takes to be imported."""
    return MachineFacts(
        node=node_name(),
        boot=boot_id(),
        python=sys.executable,
        version=platform.python_version(),
        hpcpod=__version__,
        user=user_name(),
        uid=os.getuid(),
        torch=_torch(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        listed=_listed_gpus(),
        mpi4py=importlib.util.find_spec("mpi4py") is not None,
        containers=tuple(name for name in _RUNTIMES if shutil.which(name)),
        scratch=tuple(_scratch()),
    )


def node_name() -> str:
    """Slurm's name of this node, else its host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def boot_id() -> str:
    """The id of this running kernel; two nodes that have one are one machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def user_name() -> str:
    """This user's name; empty if the machine knows none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # many compute nodes know no names
        return ""


def _torch() -> Torch:
    began = time.monotonic()
    # a process of its own: it may hang, or die of a wrong library
    answer = ask([*PYTHON, "-c", _TORCH], TORCH_SECONDS)
    seconds = time.monotonic() - began
    if answer.ok:
        version, cuda, gpus = json.loads(answer.out.splitlines()[-1])
        return Torch("", seconds, version, cuda, gpus)
    if answer.code is None:
        return Torch(answer.err, seconds)
    last = answer.err.strip().splitlines()[-1:] or [f"Python {ending(answer.code)}"]
    return Torch(last[0], seconds)


def _listed_gpus() -> int | None:
    answer = ask(["nvidia-smi", "-L"], 60.0)  # s
    if not answer.ok:
        return None
    return sum(line.startswith("GPU ") for line in answer.out.splitlines())


def _scratch() -> list[Scratch]:
    named = [os.environ[name] for name in _SCRATCH if os.environ.get(name)]
    paths: dict[str, str] = {}
    for path in (*named, "/tmp", "/dev/shm"):
        paths.setdefault(os.path.realpath(path), path)
    return [_room(path, real) for real, path in paths.items()]


def _room(path: str, real: str) -> Scratch:
    try:
        mount = mount_of(Path("/proc/self/mountinfo").read_text(errors="replace"), real)
        room = os.statvfs(real)
    except OSError:
        return Scratch(path, "nothing", 0.0)
    free = float(room.f_bavail * room.f_frsize) if os.access(real, os.W_OK | os.X_OK) else 0.0
    return Scratch(path, mount.type if mount else "unknown", free)


def judge(
    group: str, machines: Sequence[MachineFacts], gpus: int | None, *, more: bool = False
) -> list[Finding]:
    """Findings on machines; where they differ, each has a row of its own.

    Args:
        group: the rows' group.
        machines: those that were looked at.
        gpus: those that a slot asks for on a node, and that these machines were asked for too;
            None: they were not, so what they show is no answer.
        more: there may be more of them than a slot asks for.
    """
    rows: dict[str, list[tuple[str, Finding]]] = {}
    for machine in machines:
        for finding in _judged(group, machine, gpus, more):
            rows.setdefault(finding.probe, []).append((machine.node, finding))
    return [finding for found in rows.values() for finding in _merged(found)]


def _merged(found: list[tuple[str, Finding]]) -> list[Finding]:
    first = found[0][1]
    if all((f.verdict, f.then) == (first.verdict, first.then) for _, f in found):
        return [first]
    return [replace(finding, found=f"{node}: {finding.found}") for node, finding in found]


def _judged(group: str, machine: MachineFacts, gpus: int | None, more: bool) -> list[Finding]:
    containers = ", ".join(machine.containers) or "no runtime on the PATH"
    none = "none is needed; cluster.container may use one"
    return [
        _judge_python(group, machine),
        _judge_torch(group, machine.torch),
        _judge_gpus(group, machine, gpus, more),
        _judge_user(group, machine),
        Finding(group, "containers", "ok", containers, none),
        *[_judge_scratch(group, scratch) for scratch in machine.scratch],
    ]


def _judge_python(group: str, machine: MachineFacts) -> Finding:
    found = f"{machine.python}, {machine.version}, with hpcpod {machine.hpcpod}"
    here = platform.python_version()
    return decide(
        group, "Python",
        (machine.hpcpod != __version__, "problem", found,
         f"here it is {__version__}: install one version where both see it"),
        (machine.version != here, "note", found, f"here it is {here}: one for both is safer"),
        (True, "ok", found, "slots run it"),
    )  # fmt: skip


def _judge_torch(group: str, torch: Torch) -> Finding:
    found = f"{torch.version}, imported in {torch.seconds:.2g} s"
    return decide(
        group, "torch",
        (torch.error, "problem", f"it can't be imported: {torch.error}",
         "no slot can train there: install torch, or have cluster.setup load what it needs"),
        (torch.seconds < 60.0, "ok", found, "each training process imports it once"),
        (True, "note", found,
         "each training process pays that: put Python on a faster filesystem, or in a container"),
    )  # fmt: skip


def _judge_gpus(group: str, machine: MachineFacts, gpus: int | None, more: bool) -> Finding:
    torch, asked = machine.torch, gpus or 0
    visible = [n for n in (machine.visible or "").split(",") if n.strip()]
    found = f"torch sees {torch.gpus}, CUDA_VISIBLE_DEVICES "
    found += "is not set" if machine.visible is None else f"is '{machine.visible}'"
    found += "" if machine.listed is None else f", nvidia-smi lists {machine.listed}"
    enough = torch.gpus == asked or (more and torch.gpus > asked)
    found_of = f"{asked} asked for; {found}"
    return decide(
        group, "GPUs",
        (gpus is None, "ok", f"none were asked for here; {found}", ""),
        (gpus == 0, "ok", f"a slot asks for none; {found}",
         "pods train on the CPU (resources.gpus_per_pod asks for GPUs)"),
        (enough, "ok", found_of, "each rank takes one"),
        # Without File in gres.conf Slurm sets no CUDA_VISIBLE_DEVICES, and a job sees all GPUs.
        (torch.gpus > asked, "problem", found_of,
         "slots of one node would share GPUs: ask the site for gres.conf's File lines, or have"
         ' nodes alone (cluster.sbatch: {exclusive: ""})'),
        (not torch.cuda and not torch.error, "problem", found_of,
         "this torch is a build for CPUs, and pods would train there: install a CUDA build"),
        (len(visible) >= asked, "problem", found_of,
         "pods would train on the CPU: check the driver there, or torch's CUDA version"),
        (True, "problem", found_of,
         "Slurm did not give them: check resources.gpus_per_pod and the partition's GPUs"),
    )  # fmt: skip


def _judge_user(group: str, machine: MachineFacts) -> Finding:
    return decide(
        group, "user",
        (machine.user, "ok", f"{machine.uid} is {machine.user}", ""),
        (True, "note", f"user {machine.uid} has no name here",
         "some libraries ask for it: have cluster.setup export USER and LOGNAME"),
    )  # fmt: skip


def _judge_scratch(group: str, scratch: Scratch) -> Finding:
    found = f"{scratch.type}, room for {size(scratch.free)}"
    then = "libraries may fail there: have cluster.setup export another TMPDIR"
    return decide(
        group, scratch.path,
        (scratch.free >= TOO_LITTLE, "ok", found, "for what a process needs while it runs"),
        (scratch.free, "note", found, then),
        (True, "note", "nothing can be written there", then),
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(encode(look())))  # noqa: T201

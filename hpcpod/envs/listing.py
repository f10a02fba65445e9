"""The list of environments that this machine has, made without loading torch or a simulator."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

from hpcpod._gpus import visible_gpus
from hpcpod._process import PYTHON, ending
from hpcpod.envs.catalog import ATARI, BACKENDS, FAMILIES, GYMNASIUM, Package, is_there
from hpcpod.errors import UserError

ASK_SECONDS = 120.0
"""Seconds that gymnasium may take to be imported: from a cold shared filesystem, tens."""

_VERSIONS = ("hpcpod", "torch", GYMNASIUM, "mujoco", "numpy")


@dataclass(frozen=True)
class Family:
    """Environments that need the same packages."""

    name: str
    """Folder in gymnasium, such as ``classic_control``, or the package that registered them."""
    ids: tuple[str, ...]
    """Ids that gymnasium has registered."""
    note: str
    """Form of their ids where gymnasium has not registered them yet."""
    missing: tuple[str, ...]
    """Modules that they need and that are not installed."""
    install: str | None
    """The line that installs them; None if nothing is missing."""


@dataclass(frozen=True)
class Backend:
    """An entry point of the group ``hpcpod.envs``."""

    name: str
    """As in ``env.backend``."""
    path: str
    """Its class."""
    source: str
    """The package that it comes from, with its version."""
    usable: bool
    """True if all that it imports can be found."""
    why_not: str | None
    """Reason that it is not usable; None if it is."""
    install: str | None
    """The line that would make it usable."""
    versions: Mapping[str, str]
    """Versions of the modules that it imports."""
    steps: str
    """Environments that it steps, in words."""
    device: str
    """Threads or device that step them, in words."""
    ids: tuple[str, ...]
    """Every id that it steps; none if they are not known in advance."""
    families: tuple[Family, ...]
    """Registered families of backend gymnasium; none for others."""


@dataclass(frozen=True)
class Listing:
    """All of it, and what it would run on."""

    versions: Mapping[str, str | None]
    """Versions of Python and of the packages that matter; None: not installed."""
    cpu_threads: int
    """CPU threads that this process may use: on a cluster, the allocation's."""
    gpus: tuple[str, ...]
    """The GPUs that it may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    backends: tuple[Backend, ...]
    """Entry points, sorted by name."""


def list_envs() -> Listing:
    """Look at what is installed; nothing is made.

    gymnasium's registry is read by another process, which imports gymnasium alone.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group="hpcpod.envs"):
        points.setdefault(point.name, point)
    return Listing(
        versions={"python": platform.python_version()} | {n: _version(n) for n in _VERSIONS},
        cpu_threads=_cpu_threads(),
        gpus=tuple(visible_gpus()),
        backends=tuple(_backend(points[name]) for name in sorted(points)),
    )


def registered() -> dict[str, list[str]]:
    """The ids in gymnasium's registry by family; see ``hpcpod.envs.registry``.

    Raises:
        UserError: gymnasium can't be imported here.
    """
    try:
        done = subprocess.run(
            [*PYTHON, "-m", "hpcpod.envs.registry"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, timeout=ASK_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = f"gymnasium can't be imported: it took longer than {ASK_SECONDS:.0f} s"
        raise UserError(said) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"it {ending(done.returncode)}"])[-1]
        raise UserError(f"gymnasium can't be imported: {last}")
    families: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return families


def _cpu_threads() -> int:
    """What Slurm has given on this node, where it does not bind processes to it; else what the
    kernel lets this process use."""
    allowed = len(os.sched_getaffinity(0))
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return min(allowed, int(given)) if given.isdecimal() and int(given) else allowed


def _backend(point: EntryPoint) -> Backend:
    facts = BACKENDS.get(point.value)
    package = facts.package if facts else Package((point.module.split(".")[0],), _source(point)[0])
    missing = package.missing
    why_not = _not_found(missing) if missing else None
    install = package.install if missing else None
    families: tuple[Family, ...] = ()
    if not missing and point.value == "hpcpod.envs.gymnasium:PreprocessVecEnv":
        try:
            families = _families(registered())
        except UserError as error:
            why_not, install = str(error), "pip install --force-reinstall gymnasium"
    versions = {name: _version(name) for name in package.modules}
    return Backend(
        name=point.name,
        path=point.value,
        source=" ".join(filter(None, _source(point))),
        usable=why_not is None,
        why_not=why_not,
        install=install,
        versions={name: found for name, found in versions.items() if found},
        steps=facts.steps if facts else "what its own documentation says",
        device=facts.device if facts else "as its own documentation says",
        ids=facts.ids if facts else (),
        families=families,
    )


def _families(ids: Mapping[str, list[str]]) -> tuple[Family, ...]:
    """gymnasium's own first, then those that another package has registered."""
    known = [name for name in FAMILIES if name in ids or name == "atari"]
    others = sorted(ids.keys() - FAMILIES.keys())
    return tuple(
        Family(
            name=name,
            ids=tuple(ids.get(name, ())),
            note=ATARI if name == "atari" else "",
            missing=(package := FAMILIES.get(name, Package())).missing,
            install=package.install if package.missing else None,
        )
        for name in [*known, *others]
    )


def _not_found(modules: tuple[str, ...]) -> str:
    return f"{' and '.join(modules)} {'is' if len(modules) == 1 else 'are'} not installed"


def _source(point: EntryPoint) -> tuple[str, str]:
    """Name and version of the package that an entry point is of."""
    return (point.dist.name, point.dist.version) if point.dist else (point.module, "")


def _version(package: str) -> str | None:
    """The installed version of a package that can be imported by its own name."""
    if not is_there(package):
        return None
    try:
        return version(package)
    except PackageNotFoundError:  # a folder that pip did not install
        return None

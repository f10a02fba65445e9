"""Containers: their runners stand among srun's options, or behind them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from hpcpod import plugins
from hpcpod.errors import UserError

_OWN = {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"}
"""Folders of the root that an image has of its own: a node's would hide them."""
_BREAKS_MOUNT = re.compile(r"[:,\"'\\$`\n]")


@dataclass(frozen=True)
class ContainerConfig:
    """The container in which pods train (Slurm). The coordinator, and the slots of pods of several
    ranks, call Slurm's commands, which images lack: they run outside of it, by the Python that has
    submitted."""

    runtime: Literal["pyxis", "apptainer"] | None = None
    """``pyxis`` (Enroot; srun has ``--container-image`` then), ``apptainer``, or null: none."""
    image: str | None = None
    """The image, with hpcpod in it (``hpcpod render --container``): an absolute path,
    ``/images/hpcpod.sqsh`` or ``/images/hpcpod.sif``, or a registry's, which each node would fetch:
    ``nvcr.io#team/hpcpod:1`` for pyxis, ``docker://...`` for apptainer."""
    mounts: tuple[str, ...] = ()
    """Further folders to mount: ``/data``, or ``/lustre/data:/data:ro``. The run folder, folders of
    one's own modules and ``cluster.scratch`` are mounted anyway, each at its own path."""
    python: str = "python3"
    """The Python in the image: a name that its PATH has, or a path."""
    options: tuple[str, ...] = ()
    """Further options, a word each: of srun (``--no-container-mount-home``) for pyxis, of
    ``apptainer exec`` (``--cleanenv``)."""
    base: str = "nvcr.io/nvidia/pytorch:25.05-py3"
    """The image that ``hpcpod render --container`` builds upon; it has the site's torch, which
    stays."""
    packages: tuple[str, ...] = ()
    """Packages that pip installs in it beside hpcpod and its dependencies: ``[mujoco]``."""

    def __post_init__(self) -> None:
        if self.runtime is not None:
            _check_image(self.runtime, self.image)
        for mount in self.mounts:
            _check_mount(mount)
        for word in (self.python, *self.options, self.base, *self.packages):
            if not word.strip() or "\n" in word:
                raise ValueError(f"expected words without line breaks, got {word!r}")


def _check_image(runtime: str, image: str | None) -> None:
    if image is None:
        raise ValueError(f"runtime is {runtime}, which needs an image")
    # Pyxis reads a file only where its path begins with / or ./ (pyxis #127).
    remote = "://" in image or (runtime == "pyxis" and not re.search(r"\.(sqsh|sqfs)$", image))
    if not (image.startswith("/") or remote) or image.startswith(("./", "~")) or "\n" in image:
        raise ValueError(
            f"image must be an absolute path or a registry's, got {image!r}: what is relative"
            " depends on the folder in which a job runs"
        )


def _check_mount(mount: str) -> None:
    paths = mount.split(":")[:2]
    if len(mount.split(":")) > 3 or any(
        not path.startswith("/") or _BREAKS_MOUNT.search(path) for path in paths
    ):
        raise ValueError(
            "each mount is an absolute path, or two and flags with colons between them"
            f" (/lustre/data:/data:ro), and taken literally, got {mount!r}"
        )


@dataclass(frozen=True)
class Inside:
    """The things that must be the same in the container as outside of it."""

    run: str
    """The run folder."""
    modules: Sequence[str] = ()
    """Folders in which the run looks for modules: see ``module_mounts``."""
    scratch: str | None = None
    """The folder on the node's own disk."""
    variables: Iterable[str] = ()
    """Environment variables that count, whatever the image sets."""
    gpus: bool = False
    """True if the node's GPUs are there."""


@dataclass(frozen=True)
class Runner:
    """The words that run Python in a container: ``srun [srun] [prefix] [python] -m ...``."""

    srun: tuple[str, ...]
    """Options of srun."""
    prefix: tuple[str, ...]
    """The command that srun runs, up to Python."""
    python: tuple[str, ...]
    """Python, as it is called in the container."""

    @classmethod
    def of(cls, config: ContainerConfig, inside: Inside) -> Runner | None:
        """The runner of a configuration; None without a container.

        Raises:
            UserError: the run folder can't be mounted.
        """
        if config.runtime is None or config.image is None:
            return None
        # First: the run's path may lead by a link in a home, which runtimes mount, to another disk.
        # Apptainer found no working directory there.
        real = os.path.realpath(inside.run)
        if _BREAKS_MOUNT.search(inside.run + real):
            raise UserError(
                f"the run folder {inside.run} has a character in its path that the list of a"
                " container's mounts can't hold (a colon, a comma, a quote, '$' or a backslash):"
                " choose another"
            )
        mounts = _outermost([real, inside.run, *inside.modules])
        mounts += [*config.mounts, *([inside.scratch] if inside.scratch else [])]
        if config.runtime == "pyxis":
            return cls(_pyxis(config, inside, mounts), (), _named(config.python))
        return cls((), _apptainer(config, inside, mounts), _named(config.python))


def _pyxis(config: ContainerConfig, inside: Inside, mounts: list[str]) -> tuple[str, ...]:
    pairs = [mount if ":" in mount else f"{mount}:{mount}" for mount in mounts]
    return (
        f"--container-image={config.image}",
        f"--container-mounts={','.join(pairs)}",
        f"--container-workdir={inside.run}",  # else the image's
        # For Pyxis an image's own variables count for more than a job's, but for these.
        f"--container-env={','.join(sorted(inside.variables))}",
        *config.options,
    )


def _apptainer(config: ContainerConfig, inside: Inside, mounts: list[str]) -> tuple[str, ...]:
    gpus = ("--nv",) if inside.gpus else ()
    binds = [f"--bind={mount}" for mount in mounts]
    return (
        "apptainer", "exec", *gpus, *binds, f"--pwd={inside.run}", *config.options,
        str(config.image),
    )  # fmt: skip


def _named(python: str) -> tuple[str, ...]:
    """Python by way of env, which an image has where the node has it.

    srun looks for a command on the node: where that has a Python of this name too (a module's, an
    environment's), its path is not there in the container. And what pip has installed below a home
    would be found before the image's packages.
    """
    return ("/usr/bin/env", "PYTHONNOUSERSITE=1", python)  # pyxis #104


def module_mounts() -> list[str]:
    """Folders of a user's modules, as far as a container may have them at their own paths."""
    commands = Path(sys.executable).parent
    folders = (Path(folder) for folder in plugins.module_folders())
    return [
        str(folder)
        for folder in folders
        if folder.is_dir()
        and folder != commands
        and len(folder.parts) > 1
        and folder.parts[1] not in _OWN
        and not _BREAKS_MOUNT.search(str(folder))
    ]


def _outermost(folders: Sequence[str]) -> list[str]:
    """The folders, without those that lie in another one of them."""
    paths = [PurePosixPath(folder) for folder in dict.fromkeys(folders)]
    return [str(p) for p in paths if not any(other in p.parents for other in paths)]

"""The launcher of a run, by the name or the class path that its configuration gives."""

from __future__ import annotations

from pathlib import Path

from hpcpod import plugins
from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.launchers.base import Launcher
from hpcpod.storage.run_folder import RunFolder


def make_launcher(path: Path, config: RunConfig) -> Launcher:
    """The launcher that a configuration names, for the run folder at ``path``.

    Raises:
        UserError: no launcher has this name, or this machine lacks what it needs.
    """
    launcher: Launcher = plugins.make(Launcher, "launchers", config.cluster.launcher, path, config)
    return launcher


def launcher_of(folder: RunFolder) -> Launcher:
    """The launcher of a run. That of a local run counts this machine's GPUs, if its pods have any.

    Raises:
        UserError: the run is another user's; or as ``make_launcher``.
    """
    require_launcher(folder)
    return make_launcher(folder.path, folder.resolved.config)


def launcher_here(folder: RunFolder) -> Launcher | str:
    """The run's launcher, or why there can be none on this machine for this user."""
    try:
        return launcher_of(folder)
    except UserError as error:
        return str(error)


def require_launcher(folder: RunFolder) -> None:
    """See that this user may have a launcher of the run.

    Raises:
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    folder.owner.require_code((), "submit")

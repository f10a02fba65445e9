"""Launch a run: make its folder, then start processes here or jobs on a cluster."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from hpcpod._process import PYTHON, REQUEUE
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.errors import HpcpodError
from hpcpod.launchers.base import array_sizes, with_scripts
from hpcpod.launchers.factory import launcher_of
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.records.records import Intent
from hpcpod.run.start_from import source_of
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import first_board, needed_checkpoints
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.rules import Rules

BEGIN_SECONDS = 30.0
"""The longest that a process that runs slots here is waited for when it begins."""
_BACKGROUND: dict[subprocess.Popen[bytes], Path] = {}
"""Coordinators that this process has started, with their run folders; they end with it."""
_DETACHED: list[subprocess.Popen[bytes]] = []
"""Those that do not."""


@atexit.register
def _end_background() -> None:
    """Have the coordinators end their slots, kindly. Should this process be killed instead,
    or Ctrl-C end the wait, they notice."""
    for number in (signal.SIGTERM, signal.SIGUSR2) if _BACKGROUND else ():
        signal.signal(number, signal.SIG_IGN)  # a second one printed a traceback
    with contextlib.suppress(KeyboardInterrupt):
        for process in _BACKGROUND:
            if process.poll() is None:
                process.terminate()
        for process, path in _BACKGROUND.items():
            if process.wait() == REQUEUE:  # else the run has finished, or failed
                said = f"{path} ended with this process; `hpcpod resume {quote(str(path))}` goes on"
                sys.stderr.write(f"hpcpod: {said}\n")


def create_run(
    resolved: Resolved, runs: Path, because: Mapping[str, str] | None = None
) -> RunFolder:
    """Make the run folder with its first board: complete, or not at all.

    Args:
        resolved: of the run.
        runs: the folder that holds runs.
        because: reasons of what ``population: auto`` has chosen, by path.

    Raises:
        RunExists: a run of this name is there.
        UserError: the folder can't be written, or the policy that it starts from can't be read.
    """
    chosen = {"because": dict(because)} if because else {}
    return create_at(runs / resolved.config.name, resolved, {"source": source_state(), **chosen})


def create_at(path: Path, resolved: Resolved, more: Mapping[str, Any]) -> RunFolder:
    """Make a run folder at a path, as ``create_run`` does.

    Args:
        path: the folder.
        resolved: of the run.
        more: further entries of its ``config.json``; with ``versions``, those are not asked for.

    Raises:
        RunExists: a run of this name is there.
        UserError: the folder can't be written, or the policy that it starts from can't be read.
    """
    wanted = resolved.config.population.start_from
    source = None if wanted is None else source_of(wanted, resolved.config)
    parent = None if source is None else source.parent
    board = first_board(Rules.of(resolved.config, resolved.algorithms), time.time(), parent)
    document = {**resolved.document(more.get("versions")), **more}
    needed = needed_checkpoints(board)
    fill = None if source is None else partial(source.copy, needed=needed)
    return RunFolder.create(path, document, board=board.document(), fill=fill)


def start(folder: RunFolder, config: RunConfig, *, detach: bool = False) -> list[str]:
    """Set a new run going: a process here, or jobs on the cluster; return the jobs' ids.

    Args:
        folder: the run's.
        config: its configuration.
        detach: the process here goes on when this one ends.

    Raises:
        LaunchError: the scheduler refused. Then nothing is left, neither jobs nor folder.
    """
    if config.cluster.launcher == "local":
        start_here(folder, detach=detach)
        return []
    try:
        return submit_missing(folder)
    except HpcpodError:
        with contextlib.suppress(HpcpodError):  # of several arrays some may have been taken
            launcher = launcher_of(folder)
            launcher.cancel([job.job for job in launcher.observe().jobs])
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def write_scripts(folder: RunFolder, config: RunConfig) -> list[Path]:
    """Write a run's sbatch scripts for a person to submit; each counts once, like a launch's.

    Raises:
        UserError: the run's launcher submits no scripts.
    """
    launcher = with_scripts(launcher_of(folder), config.cluster.launcher)
    sizes = array_sizes(launcher.places, launcher.largest_array())  # MaxArraySize: 1001 by default
    paths = []
    for intent in _new_intents(folder, config, sizes):
        folder.intents.publish(intent)
        path = folder.path / "scripts" / f"{intent.kind}-{intent.number}.sbatch"
        folder.disk.replace(path, launcher.script(intent).encode())
        paths.append(path)
    return paths


def submit_missing(folder: RunFolder) -> list[str]:
    """One tick of a run on a cluster: submit its coordinator, or the next one, and the slots that
    it lacks; return the new jobs' ids.

    Raises:
        LaunchError: the scheduler refused.
    """
    before = _submitted(folder)  # not its intents: one that was refused is tried again
    Orchestrator(folder, launcher_of(folder)).tick(strict=True)
    return [job for job in _submitted(folder) if job not in before]


def _submitted(folder: RunFolder) -> list[str]:
    jobs = (folder.intents.submission(intent.number) for intent in folder.intents.all())
    return [job for job in jobs if job is not None]


def _new_intents(folder: RunFolder, config: RunConfig, sizes: Sequence[int]) -> list[Intent]:
    """The next submissions of a run: its coordinator, if it has one, and arrays of slots."""
    now, reports, target = time.time(), read_board(folder).reports, sum(sizes)
    ahead = [Intent(0, "", "coordinator", time=now)] if config.cluster.coordinator else []
    arrays = [Intent(0, "", "slots", size, reports, now, target) for size in sizes]
    return [
        replace(intent, number=number, token=secrets.token_hex(8))
        for number, intent in enumerate([*ahead, *arrays], folder.intents.count())
    ]


def start_here(folder: RunFolder, *, detach: bool = False) -> None:
    """Run slots and coordinator in the background; they end when this process does, unless it is
    to ``detach`` them.

    Returns when they do, so that the next look finds no interrupted run.
    """
    (folder.path / "logs").mkdir(exist_ok=True)
    with (folder.path / "logs" / "coordinator.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *PYTHON, "-m", "hpcpod.orchestrator", str(folder.path),
                *([] if detach else ["--parent", str(os.getpid())]),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C of the terminal is for this process
        )  # fmt: skip
    if detach:
        _DETACHED.append(process)  # Python warns of one that is forgotten while it runs
    else:
        _BACKGROUND[process] = folder.path
    end = time.monotonic() + BEGIN_SECONDS
    while folder.locks.driven() is False and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)  # s


def source_state() -> str:
    """``git describe`` of the working directory, or empty outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            capture_output=True, text=True, timeout=5, check=False,  # s
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

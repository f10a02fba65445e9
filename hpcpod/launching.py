"""Making a run and setting it going: a folder, then processes here or jobs on a cluster."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.errors import HpcpodError
from hpcpod.launchers.base import with_scripts
from hpcpod.orchestrator.tick import launcher_of, submit
from hpcpod.records import Intent
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.rules import Rules

_BACKGROUND: list[subprocess.Popen[bytes]] = []
"""Coordinators that this process has started; they end with it."""


@atexit.register
def _end_background() -> None:
    """Have the coordinators end their slots, kindly. Should this process be killed instead,
    they notice."""
    for process in _BACKGROUND:
        if process.poll() is None:
            process.terminate()
    for process in _BACKGROUND:
        process.wait()


def create_run(resolved: Resolved, runs: Path) -> RunFolder:
    """Make the run folder with its first board: complete, or not at all.

    Raises:
        RunExists: a run of this name is there.
        UserError: the folder can't be written.
    """
    rules = Rules.of(resolved.config, resolved.algorithms)
    board = first_board(rules, time.time())
    document = {**resolved.document(), "source": source_state()}
    return RunFolder.create(runs / resolved.config.name, document, board=board.document())


def remove_run(folder: RunFolder) -> None:
    """Take back a run that never started."""
    shutil.rmtree(folder.path, ignore_errors=True)


def start(folder: RunFolder, config: RunConfig) -> list[str]:
    """Set a new run going: a process here, or jobs on the cluster; return the jobs' ids.

    Raises:
        LaunchError: the scheduler refused. Then nothing is left, neither jobs nor folder.
    """
    if config.cluster.launcher == "local":
        start_here(folder)
        return []
    launcher = launcher_of(folder)
    jobs: list[str] = []
    try:
        for intent in new_intents(folder, launcher.places):
            jobs += [job for job in [submit(folder, launcher, intent)] if job is not None]
    except HpcpodError:
        launcher.cancel(jobs)
        remove_run(folder)
        raise
    return jobs


def write_scripts(folder: RunFolder, config: RunConfig) -> list[Path]:
    """Write a run's sbatch scripts for a person to submit; each counts once, like a launch's.

    Raises:
        UserError: the run's launcher submits no scripts.
    """
    launcher = with_scripts(launcher_of(folder), config.cluster.launcher)
    paths = []
    for intent in new_intents(folder, launcher.places):
        folder.publish_intent(intent)
        path = folder.path / "scripts" / f"{intent.kind}-{intent.number}.sbatch"
        path.parent.mkdir(exist_ok=True)
        path.write_text(launcher.script(intent))
        paths.append(path)
    return paths


def restart(folder: RunFolder, *, paused: bool) -> list[str]:
    """Submit what a run on a cluster lacks: its coordinator, and slots; the jobs' ids.

    Args:
        folder: the run.
        paused: it was drained: a coordinator that still runs is on its way out. One of a name
            runs at a time, so another does no harm.
    """
    launcher = launcher_of(folder)
    leaving = {("coordinator", "running")} if paused else set()
    jobs_now = launcher.observe().jobs
    present = {job.kind for job in jobs_now if (job.kind, job.state) not in leaving}
    wanted = [i for i in new_intents(folder, launcher.places) if i.kind not in present]
    jobs = []
    for intent in wanted:
        numbered = replace(intent, number=folder.intent_count())
        job = submit(folder, launcher, numbered)
        jobs += [job] if job is not None else []
    return jobs


def new_intents(folder: RunFolder, slots: int) -> list[Intent]:
    """The next two submissions of a run: its coordinator and an array of slots."""
    number = folder.intent_count()
    return [
        Intent(number, secrets.token_hex(8), "coordinator"),
        Intent(number + 1, secrets.token_hex(8), "slots", slots, read_board(folder).reports),
    ]


def start_here(folder: RunFolder) -> None:
    """Run slots and coordinator in the background; they end when this process does."""
    (folder.path / "logs").mkdir(exist_ok=True)
    with (folder.path / "logs" / "coordinator.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "hpcpod.orchestrator", str(folder.path),
                "--parent", str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    _BACKGROUND.append(process)


def source_state() -> str:
    """``git describe`` of the working directory, or empty outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            capture_output=True, text=True, timeout=5, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

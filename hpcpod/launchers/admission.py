"""Who a process is, and whether its submission is the one that counts."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

from hpcpod.launchers.base import ClusterView
from hpcpod.records import Owner
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)

REQUEUE = 75
"""EX_TEMPFAIL: an exit code by which a job asks to come back."""

BY_HAND = "hand-"
"""Slots that a person started without a launcher have names that begin so."""


def identity(slot: str | None = None, job: str | None = None) -> Owner:
    """Who this process is: what it was told, else its place in Slurm, else its process id."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    host, pid = socket.gethostname(), os.getpid()
    if slot is None:
        alone = os.environ.get("SLURM_JOB_ID") or f"{BY_HAND}{host}-{pid}"
        slot = f"{array}_{task}" if array and task else alone
    return Owner(slot, job or array or slot, host, pid)


def admitted(folder: RunFolder, token: str | None, owner: Owner) -> bool:
    """Whether this process's submission is the one that counts for its intent.

    Two coordinators may both submit an intent. The first job that is recorded wins; the
    processes of the other one end at once, so the population never doubles.
    """
    if token is None:
        return True
    intent = next((i for i in folder.intents() if i.token == token), None)
    if intent is None:
        log.error("no intent of this run has the token %s; was it made for another run?", token)
        return False
    winner = folder.record_submission(intent.number, owner.job)
    if winner != owner.job:
        log.warning("intent %d was submitted as job %s already; ending", intent.number, winner)
    return winner == owner.job


def alive(owner: Owner, view: ClusterView) -> bool:
    """Whether the owner of a claim may still come back to it.

    ``view`` must have been observed *after* the claim was read: a claim is made by a process
    that runs, so one that is not in a later view is gone.
    """
    if any(job.slot == owner.slot for job in view.jobs):
        return True
    if not owner.slot.startswith(BY_HAND):
        return False
    return owner.host != socket.gethostname() or Path(f"/proc/{owner.pid}").exists()

"""The identity of a process, and the check that its submission is the one that counts."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from hpcpod.config.placement import ranks_of
from hpcpod.errors import UserError
from hpcpod.launchers.base import ClusterView
from hpcpod.records.records import Intent, Owner
from hpcpod.storage.freshness import refresh_folder
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import LANE, element

log = logging.getLogger(__name__)

BY_HAND = "hand-"
"""Slots that a person started without a launcher have names that begin so."""

STALE_SECONDS = 180.0
"""A slot that has shown nothing for so long is not taken for alive: its host may be gone, or
another process have its number."""


def identity(
    slot: str | None = None, job: str | None = None, *, guest: bool = False, alone: bool = False
) -> Owner:
    """The identity of this process: the given one, else its place in Slurm, else its process id.

    A guest, in another user's run, is named as one by hand: that user's scheduler lists its job
    nowhere, and it would be taken for gone. So is one that is ``alone``, of no submission of the
    run's, if its job is no array: a person's own, as of ``salloc``.
    """
    # The SLURM_JOB_ID of one element is the array's own: by it all would be requeued (22.05).
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    host, pid = socket.gethostname(), os.getpid()
    if slot is None:
        own = os.environ.get("SLURM_JOB_ID")
        other = own if own and not alone else f"{BY_HAND}{host}-{pid}"
        slot = f"{array}_{task}" if array and task else other
        if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:  # slots that share a GPU
            slot = f"{slot}{LANE}{os.environ.get('SLURM_PROCID', '0')}"
    if guest and not slot.startswith(BY_HAND):
        slot = BY_HAND + slot
    return Owner(slot, job or array or slot, host, pid)


def check_code(folder: RunFolder, token: str | None) -> None:
    """See that this process may be a slot of a run: its own user's, or a guest in another's.

    A guest trains what is built in, with one process for each pod: ranks meet where the owner's
    folder says, in which no other user writes.

    Raises:
        UserError: it may not.
    """
    owner, resolved = folder.owner, folder.resolved
    owner.require_code(resolved.own_code(), "train")
    if not owner.mine and token is not None:
        raise UserError(
            f"this script is a submission of {owner.name}'s: to work on {folder.path} too, have a"
            " job of yours run `python -m hpcpod.slot` on it, without --token"
        )
    if not owner.mine and ranks_of(resolved.config) > 1:
        raise UserError(
            f"the run at {folder.path} belongs to {owner.name}, and its pods have several ranks:"
            f" only {owner.name}'s slots train it"
        )


def admitted(folder: RunFolder, token: str | None, owner: Owner) -> bool:
    """True if this process's submission is the one that counts for its intent.

    Two coordinators may both submit an intent. The first job that is recorded wins; the
    processes of the other one end at once, so the population never doubles.

    Raises:
        UserError: no intent of this run has the token.
    """
    if token is None:
        return True

    def announced() -> Intent | None:
        return next((i for i in folder.intents.all() if i.token == token), None)

    intent = announced()
    if intent is None:  # on NFS a node goes on believing that there was none
        refresh_folder(folder.disk, folder.path / "intents")
        intent = announced()
    if intent is None:
        raise UserError(
            f"no submission of this run is called {token}: a script that was printed by"
            " `hpcpod launch --dry-run`, or made for another run, does nothing here;"
            " `hpcpod render` writes scripts to submit by hand"
        )
    winner = folder.intents.record(intent.number, owner.job)
    if winner != owner.job:
        log.warning("intent %d was submitted as job %s already; ending", intent.number, winner)
    return winner == owner.job


def alive(owner: Owner, view: ClusterView, silence: Mapping[str, float]) -> bool:
    """True if the owner of a claim may still come back to it.

    ``view`` must have been observed *after* the claim was read: a claim is made by a process
    that runs, so one that is not in a later view is gone. Some slots no scheduler knows, nor of
    several in one job which of them runs: ``silence`` says for how many seconds each of them has
    shown nothing.
    """
    if owner.slot in view.slots:
        return True
    if element(owner.slot) in view.slots:  # a lane: its element goes on though it has ended
        begun = view.running.get(element(owner.slot), 0.0) < STALE_SECONDS
        return begun or silence.get(owner.slot, 0.0) < STALE_SECONDS
    return owner.slot in silence and process_alive(owner.host, owner.pid, silence[owner.slot])


def process_alive(host: str, pid: int, silence: float) -> bool:
    """True if a slot's process lives, as far as can be seen from here.

    Args:
        host: where it runs.
        pid: its process id there.
        silence: seconds since it last showed something.
    """
    if silence >= STALE_SECONDS:
        return False
    return host != socket.gethostname() or Path(f"/proc/{pid}").exists()

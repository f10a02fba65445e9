"""Queries to Slurm for a view of the cluster, in the way of asking that a launcher has."""

from __future__ import annotations

import logging
from typing import Protocol

from hpcpod.errors import LaunchError
from hpcpod.launchers.base import THROTTLED, ClusterView, Idle
from hpcpod.launchers.slurm.sinfo import IDLE_FORMAT, read_idle
from hpcpod.launchers.slurm.squeue import (
    LOOK_FORMAT,
    QUEUE_FORMAT,
    read_look,
    read_queue,
    throttle,
)

HINT_SECONDS = 10.0
"""Wait for an answer that a tick can do without."""

MOST_ARRAYS = 20  # rl_enable (since 23.02) slows a user who asks often
"""Arrays whose throttles are looked up at a tick; it is one question for each."""

log = logging.getLogger(__name__)


class Ask(Protocol):
    """A launcher's way to ask."""

    def __call__(self, *command: str, patience: float | None = None) -> str:
        """What a Slurm command prints.

        Raises:
            LaunchError: there is no such command, it failed, or did not answer within
                ``patience`` seconds.
        """
        ...


def ask_queue(ask: Ask, run: str, patience: float | None) -> ClusterView:
    """The jobs of a run: one squeue.

    Args:
        ask: how.
        run: the run's id.
        patience: seconds to wait for the answer, which then says what was cancelled lately, too.

    Raises:
        LaunchError: there is no squeue, or the controller does not answer.
    """
    # 600 jobs as --json were 2.2 MB, by a format 31 kB; squeue -r of 5,000 elements took 6 ms
    # (22.05).
    command = ("squeue", "--me", "-h", "-r")
    if patience is None:
        return read_queue(ask(*command, "-O", QUEUE_FORMAT), run)
    # One question, not two: people who watch a run ask again and again.
    return read_look(ask(*command, "-t", "all", "-O", LOOK_FORMAT, patience=patience), run)


def ask_throttles(ask: Ask, view: ClusterView) -> dict[str, int]:
    """The throttles that hold elements back, by submission; one scontrol for each array.

    squeue does not show them (see module ``squeue``), but every element's record has its array's:
    one element stands for all.
    """
    waiting: dict[str, str] = {}
    for job in view.jobs:
        if (job.kind, job.state, job.reason) == ("slots", "pending", THROTTLED):
            waiting.setdefault(job.submission, job.job)
    found = {}
    for array, element in list(waiting.items())[:MOST_ARRAYS]:
        try:
            text = ask("scontrol", "show", "job", "-o", element, patience=HINT_SECONDS)
        except LaunchError as error:  # it has just started, or ended
            log.debug("the throttle of %s is not known: %s", array, error)
            continue
        limit = throttle(text)
        if limit is not None:
            found[array] = limit
    return found


def ask_idle(ask: Ask, partitions: str | None, gpu_type: str | None) -> Idle | None:
    """Idle nodes, by one sinfo; None if unknown.

    Args:
        ask: how.
        partitions: names with commas between them; None: the cluster's default.
        gpu_type: the type of GPUs that count; None: every one.
    """
    where = ("-p", partitions) if partitions else ()
    try:
        listing = ask("sinfo", "-h", "-N", "-O", IDLE_FORMAT, *where, patience=HINT_SECONDS)
    except LaunchError as error:
        log.debug("what is idle is not known: %s", error)
        return None
    return read_idle(listing, partitions.split(",") if partitions else (), gpu_type)

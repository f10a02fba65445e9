"""Output of sacct on attempts that have ended: explanations only, as many sites lack accounting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcpod.errors import LaunchError
from hpcpod.launchers.slurm.queries import Ask

HISTORY_FORMAT = "JobID,State,ExitCode,ElapsedRaw,End,NodeList"
HISTORY_SECONDS = 20.0  # records reach slurmdbd seconds late
"""Wait for the accounting's database."""

_JOB = re.compile(r"[0-9]{1,18}(?:_[0-9]{1,18})?")
_WHOLE = re.compile(r"[0-9]{1,15}")
_CODE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")  # exit code:signal


@dataclass(frozen=True)
class EndedJob:
    """One run of a job: from a start to its end, or until it was requeued."""

    job: str
    """The job's, or the element's, id."""
    state: str
    """End, in Slurm's word: ``PREEMPTED``, ``NODE_FAIL``, ``REQUEUED``."""
    exit_code: int
    """Exit code of the batch script."""
    signal: int
    """The signal that ended it, or 0."""
    seconds: float
    """Seconds that it ran."""
    ended: float
    """Unix time of its end."""
    node: str
    """Nodes, as Slurm writes them."""


def ask_history(ask: Ask, jobs: Sequence[str]) -> tuple[EndedJob, ...] | None:
    """The ended runs of these jobs, arrays or elements; None if the site keeps no accounts.

    ``-D``: without it only a job's last run is shown, and not those that were requeued.
    """
    if not jobs:
        return ()
    # With -X alone a job may stay PREEMPTED after its rerun has completed.
    options = ("-n", "-P", "-X", "-D", "-j", ",".join(jobs), "-o", HISTORY_FORMAT)
    try:
        return read_history(ask("sacct", *options, patience=HISTORY_SECONDS))
    except LaunchError:
        return None


def read_history(text: str) -> tuple[EndedJob, ...]:
    """The ended runs among the lines that ``sacct -P`` printed in ``HISTORY_FORMAT``.

    Times are Unix times (``cluster.TIME_FORMAT``). Lines of anything else are passed over.
    """
    ended_jobs = []
    for line in text.splitlines():
        job, state, code, seconds, ended, node, *_ = [*line.split("|"), *[""] * 6]
        codes = _CODE.fullmatch(code)
        # While it has not ended sacct says so by a word.
        if not (_JOB.fullmatch(job) and codes and _WHOLE.fullmatch(ended)):
            continue
        ended_jobs.append(
            EndedJob(
                job=job,
                state=state.partition(" ")[0],  # CANCELLED by 1000
                exit_code=int(codes[1]),
                signal=int(codes[2]),
                seconds=float(seconds) if _WHOLE.fullmatch(seconds) else 0.0,
                ended=float(ended),
                node=node,
            )
        )
    return tuple(ended_jobs)

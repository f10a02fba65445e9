"""Output of squeue, read into plain data: pure functions, no process is started.

``squeue -r -O`` with widths of our own is read.

- Never ``--json``: its schema changes with every release, and it ignored filters before 24.05.
- Not ``-o``, which has no letter for how often a job was requeued.
- With ``-r``: without it, elements that wait to come back are joined with those that never ran,
  under the reason of one of them, and the array's throttle is not shown any more. (The option
  ``--array-unique`` was against that; 23.11 has no such option.)
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import Literal

from hpcpod.launchers.base import Cancelled, ClusterView, JobView
from hpcpod.launchers.slurm.scontrol import minutes_of

_COLUMNS = {
    "JobArrayID": 40,
    "State": 20,
    "RestartCnt": 8,
    "TimeUsed": 16,
    "TimeLeft": 16,
    "StartTime": 24,
    "Partition": 64,
    "NodeList": 96,
    "Reason": 160,
    "Comment": 120,
}
QUEUE_FORMAT = ",".join(f"{name}:{width}|" for name, width in _COLUMNS.items())
"""The comment last, for another's may hold a ``|``. Widths cut nothing that decides anything: a
comment of ours has less than 60 characters. Without them each column has 20."""

LOOK_FORMAT = f"EndTime:24|,{QUEUE_FORMAT}"
"""For jobs in every state (``-t all``), of which squeue shows those that have ended for the site's
MinJobAge: five minutes mostly."""

TIME_FORMAT = "%s"
"""SLURM_TIME_FORMAT: seconds since 1970, so that no time zone and no summer time is in between."""

MOST_ELEMENTS = 100_000
"""Elements that are taken from one line, whatever it says."""

Kind = Literal["slots", "coordinator"]

_PENDING = {
    "PENDING",
    "REQUEUED",
    "REQUEUE_FED",  # a federation tries it on another cluster
    "REQUEUE_HOLD",
    "RESV_DEL_HOLD",  # held, as its reservation was deleted
    "SPECIAL_EXIT",
}
_ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",  # without COMPLETING: see job_state
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",  # another cluster of a federation has started it
    "TIMEOUT",
}
# SLURM_BITSTR_LEN cuts a list of elements short ("12_[1,3,..."): no bracket follows then.
_ARRAY = re.compile(r"(?P<job>\d{1,18})_\[(?P<elements>[^\]%]*)(?:%\d+)?\]?", re.ASCII)
# \d alone would take digits such as "٣" from another user's comment.
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_PLAIN = re.compile(r"\d{1,18}(?:_\d{1,18})?", re.ASCII)
_MARK = re.compile(r"hpcpod:([^:]*):(slots|coordinator):([^:]+)")
_THROTTLE = re.compile(r"\bArrayTaskThrottle=(\d{1,9})\b", re.ASCII)
_NO_REASON = {"None", "(null)", ""}


@dataclass(frozen=True)
class Mark:
    """The mark in a job's comment: ``hpcpod:<run id>:<kind>:<token>``."""

    run: str
    kind: Kind
    token: str

    def __str__(self) -> str:
        return f"hpcpod:{self.run}:{self.kind}:{self.token}"

    @classmethod
    def read(cls, comment: str) -> Mark | None:
        """The inverse of ``str``; None for a comment that is not one of ours."""
        match = _MARK.fullmatch(comment.strip())
        if match is None:
            return None
        return cls(match[1], "slots" if match[2] == "slots" else "coordinator", match[3])


def read_queue(text: str, run: str) -> ClusterView:
    """The jobs of a run among the lines that squeue printed in ``QUEUE_FORMAT``.

    Lines of other jobs, headers of multi-cluster sites and torn lines are passed over.
    """
    jobs = [job for line in text.splitlines() for job in _views(_fields(line), run)]
    return ClusterView(tuple(jobs))


def read_look(text: str, run: str) -> ClusterView:
    """The same from lines in ``LOOK_FORMAT``, with the slots that were cancelled lately."""
    jobs: list[JobView] = []
    cancelled: list[Cancelled] = []
    for line in text.splitlines():
        ended, _, rest = line.partition("|")
        fields = _fields(rest)
        jobs += _views(fields, run)
        cancelled += _cancelled(fields, run, _moment(ended.strip()))
    return ClusterView(tuple(jobs), cancelled=tuple(cancelled))


def _fields(line: str) -> list[str]:
    """The columns of ``QUEUE_FORMAT``; empty for a line that is none."""
    fields = [field.strip() for field in line.split("|", len(_COLUMNS) - 1)]
    if len(fields) != len(_COLUMNS):
        return []
    return [*fields[:-1], fields[-1].removesuffix("|")]  # one more "|" follows the comment


def _cancelled(fields: list[str], run: str, at: float | None) -> list[Cancelled]:
    if not fields or fields[1] != "CANCELLED" or at is None:
        return []
    mark = Mark.read(fields[-1])
    if mark is None or (mark.run, mark.kind) != (run, "slots"):
        return []
    return [Cancelled(name, name.partition("_")[0], at) for name in elements(fields[0])]


def _views(fields: list[str], run: str) -> list[JobView]:
    if not fields:
        return []
    identifier, word, restarts, used, left, start, partition, nodes, reason, comment = fields
    mark, state = Mark.read(comment), job_state(word)
    if mark is None or mark.run != run or state is None:
        return []
    pending = state == "pending"
    return [
        JobView(
            slot=name,
            job=name,
            kind=mark.kind,
            state=state,
            token=mark.token,
            reason=reason if pending and reason not in _NO_REASON else "",
            submission=name.partition("_")[0],
            node="" if pending else nodes,
            partition=partition,
            seconds=0.0 if pending else duration(used) or 0.0,
            left=duration(left),
            starts=_moment(start) if pending else None,
            restarts=_count(restarts),
            completing=word.upper() == "COMPLETING",
        )
        for name in elements(identifier)
    ]


def duration(text: str) -> float | None:
    """Seconds of ``9:58``, ``3:59:52`` or ``2-03:59:52``; None for ``UNLIMITED``, ``INVALID``."""
    minutes = minutes_of(text)
    return None if math.isinf(minutes) else float(round(60 * minutes))


def throttle(text: str) -> int | None:
    """Elements of an array that may run at once, from ``scontrol show job`` of one of them."""
    match = _THROTTLE.search(text)
    return int(match[1]) or None if match else None


def job_state(word: str) -> Literal["pending", "running"] | None:
    """Slurm's word for a state in ours; None once the job has ended for good.

    COMPLETING may be the pause before a requeue, and a word of a newer Slurm may mean
    anything: both count as running, for a job taken for gone would be replaced.
    """
    word = word.upper()
    if word in _PENDING:
        return "pending"
    return None if word in _ENDED else "running"


def elements(identifier: str) -> list[str]:
    """Every element behind squeue's ``%i``: ``7``, ``7_2``, or ``7_[0-3,8-12:4%2]``.

    Ranges appear where ``-r`` is not honoured; one cut short with ``...`` gives what is shown.
    """
    if _PLAIN.fullmatch(identifier):
        return [identifier]
    match = _ARRAY.fullmatch(identifier)  # none for "12+0", a part of a heterogeneous job
    if match is None:
        return []
    found: list[str] = []
    for part in match["elements"].split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds:
            first, last, step = bounds[1], bounds[2] or bounds[1], bounds[3] or "1"
            # range() refuses a step of 0
            numbers = range(int(first), int(last) + 1, max(1, int(step)))
            found += [
                f"{match['job']}_{n}"
                # a torn line may say 0-999999999
                for n in itertools.islice(numbers, max(0, MOST_ELEMENTS - len(found)))
            ]
    return found


NO_CLUSTER = "no Slurm here: its commands are, but no configuration that names a cluster"
"""The sentence in place of the resolver's error."""


def own_words(stderr: str) -> str:
    """A Slurm command's complaint as one clause, without its prefixes."""
    if "configuration source" in stderr.lower():  # of its resolver, without slurm.conf
        return NO_CLUSTER
    # "sbatch: error: ..." of the command, "... fatal: ..." of its libraries
    lines = [re.sub(r"^\w+: (?:(?:error|fatal): )?", "", line) for line in stderr.splitlines()]
    return "; ".join(line.strip() for line in lines if line.strip())


def _moment(text: str) -> float | None:
    """A Unix time, by ``TIME_FORMAT``; None for ``N/A``."""
    return float(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _count(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0

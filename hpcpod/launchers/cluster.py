"""What Slurm's commands say, read into plain data: pure functions, no process is started.

``squeue -o`` is read, never ``--json``: its schema changes with every release, it ignored
filters before 24.05, and for 600 jobs it is seventy times as long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hpcpod.launchers.base import ClusterView, JobView

QUEUE_FORMAT = "%i|%T|%r|%k"
"""Job, state, reason, comment: the comment last, for another's may hold a ``|``."""

NODE_FORMAT = "%c|%G"
"""Cores and generic resources of a node."""

Kind = Literal["slots", "coordinator"]

_PENDING = {
    "PENDING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
}
_ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "TIMEOUT",
}
_ARRAY = re.compile(r"(?P<job>\d+)_\[(?P<elements>[^\]%]*)(?:%\d+)?\]?")
_PLAIN = re.compile(r"\d+(?:_\d+)?")
_MAX_ARRAY_SIZE = re.compile(r"^MaxArraySize\s*=\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Mark:
    """What a job's comment says of it: ``hpcpod:<run id>:<kind>:<token>``."""

    run: str
    kind: Kind
    token: str

    def __str__(self) -> str:
        return f"hpcpod:{self.run}:{self.kind}:{self.token}"

    @classmethod
    def read(cls, comment: str) -> Mark | None:
        """The inverse of ``str``; None for a comment that is not one of ours."""
        parts = comment.strip().split(":")
        if len(parts) != 4 or parts[0] != "hpcpod" or not parts[3]:
            return None
        if parts[2] == "slots":
            return cls(parts[1], "slots", parts[3])
        if parts[2] == "coordinator":
            return cls(parts[1], "coordinator", parts[3])
        return None


def read_queue(text: str, run: str) -> ClusterView:
    """The jobs of a run among the lines that squeue printed in ``QUEUE_FORMAT``.

    Lines of other jobs, headers of multi-cluster sites and torn lines are passed over.
    """
    jobs = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|", 3)]
        if len(fields) != 4:
            continue
        identifier, word, reason, comment = fields
        mark, state = Mark.read(comment), job_state(word)
        if mark is None or mark.run != run or state is None:
            continue
        shown = reason if state == "pending" and reason not in ("None", "(null)") else ""
        jobs += [
            JobView(name, name, mark.kind, state, mark.token, shown, name.partition("_")[0])
            for name in elements(identifier)
        ]
    return ClusterView(tuple(jobs))


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
    match = _ARRAY.fullmatch(identifier)
    if match is None:
        return []
    found = []
    for part in match["elements"].split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if bounds:
            first, last, step = bounds[1], bounds[2] or bounds[1], bounds[3] or "1"
            found += [f"{match['job']}_{n}" for n in range(int(first), int(last) + 1, int(step))]
    return found


def max_array_size(text: str) -> int | None:
    """How many elements one array may have, from ``scontrol show config``."""
    match = _MAX_ARRAY_SIZE.search(text)
    return int(match[1]) if match else None


def own_words(stderr: str) -> str:
    """What a Slurm command complained of, as one clause, without its prefixes."""
    lines = [re.sub(r"^\w+: (?:(?:error|fatal): )?", "", line) for line in stderr.splitlines()]
    return "; ".join(line.strip() for line in lines if line.strip())


def largest_node(listing: str, gpu_type: str | None = None) -> tuple[int, int]:
    """The GPUs of the node that has most of them, and its cores; without GPUs, the most cores.

    Args:
        listing: of sinfo by ``NODE_FORMAT``: ``64|gpu:a100:8(S:0-1),shard:32`` or ``16|(null)``.
        gpu_type: the type of GPUs that count; None: every one.
    """
    kind = f":{re.escape(gpu_type)}" if gpu_type else ""
    nodes = [(0, 1)]
    for line in listing.splitlines():
        cores, _, resources = line.partition("|")
        counts = re.findall(rf"(?:^|,)gpu{kind}(?::[^:,()]+)*?:(\d+)", resources)
        # sinfo says "16+" where nodes of one line differ.
        nodes.append((sum(map(int, counts)), int(re.sub(r"\D", "", cores) or 1)))
    return max(nodes)

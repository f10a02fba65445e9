"""The contract of launchers: slots are submitted, seen and ended, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

from hpcpod.errors import UserError
from hpcpod.records.records import Intent

RELEASE_SECONDS = 3
"""Seconds that a requeued slot waits at least. Within one second a node refuses a job that it was
just told to forget ("Job credential revoked"), and Slurm ends such a job for good."""

THROTTLED = "JobArrayTaskLimit"
"""The scheduler's reason for elements that their array's throttle holds back."""


@dataclass(frozen=True)
class JobView:
    """One process or array element of this run, as the scheduler sees it now."""

    slot: str
    """The slot's name, as in ``Owner.slot``; ``coordinator`` jobs have one too."""
    job: str
    """The name that ``cancel`` takes."""
    kind: Literal["slots", "coordinator"]
    state: Literal["pending", "running"]
    token: str
    """The intent's token."""
    reason: str = ""
    """The reason why it is pending, in the scheduler's own word."""
    submission: str = ""
    """The id that ``submit`` returned for it."""
    node: str = ""
    """The node that it runs on; several in the scheduler's short form."""
    partition: str = ""
    """The partition that it runs or may run in; several with commas between them."""
    seconds: float = 0.0
    """Seconds since its last start; 0 while it waits."""
    left: float | None = None
    """Seconds until its time limit; None without one."""
    starts: float | None = None
    """Unix time at which a pending one is expected to start; None if unknown."""
    restarts: int = 0
    """Requeues so far."""
    completing: bool = False
    """It has ended, but for the node's cleaning up; it may come back, if it is requeued."""

    @property
    def requeued(self) -> bool:
        """True if it has run already, and waits to come back."""
        return self.state == "pending" and self.restarts > 0


@dataclass(frozen=True)
class Cancelled:
    """A slot that a person has ended by the scheduler's own means (``scancel``), not long ago."""

    slot: str
    """Its name, as in ``Owner.slot``."""
    submission: str
    """The id that ``submit`` returned for it."""
    at: float
    """Unix time of its end."""


@dataclass(frozen=True)
class IdleNode:
    """The idle part of one node."""

    name: str
    """The node's."""
    gpus: int
    """GPUs, of whatever type."""
    cpus: int
    """Cores, or hardware threads where the scheduler counts those."""


@dataclass(frozen=True)
class Idle:
    """Idle nodes, as far as can be seen: a hint, for priorities, quotas, reservations and other
    waiting jobs decide who gets them."""

    nodes: tuple[IdleNode, ...] = ()
    """Nodes on which jobs may start."""

    @property
    def gpus(self) -> int:
        """GPUs of all nodes together."""
        return sum(node.gpus for node in self.nodes)

    @property
    def cpus(self) -> int:
        """Cores of all nodes together."""
        return sum(node.cpus for node in self.nodes)


@dataclass(frozen=True)
class ClusterView:
    """All jobs of this run that are pending or running; what is not here is gone."""

    jobs: tuple[JobView, ...] = ()
    throttles: Mapping[str, int] = field(default_factory=dict)
    """Elements of an array that may run at once, by its submission. An array is absent if none of
    its elements waits for just that."""
    idle: Idle | None = None
    """Idle GPUs and cores for jobs like this run's; None if unknown or not asked."""
    room: int | None = None
    """Elements of this run that could start at once on what is idle, beside those that run."""
    max_array_size: int | None = None
    """Elements that one array may have, all indices being smaller; None if unknown or not asked."""
    cancelled: tuple[Cancelled, ...] = ()
    """Slots that were ended so, as long as the scheduler remembers them; empty if unknown or not
    asked."""

    @cached_property
    def slots(self) -> frozenset[str]:
        """The names of all jobs."""
        return frozenset(job.slot for job in self.jobs)

    @cached_property
    def running(self) -> Mapping[str, float]:
        """The seconds since the last start of each job that runs, by its slot."""
        return {job.slot: job.seconds for job in self.jobs if job.state == "running"}


class Launcher(Protocol):
    """A way to run slots. A kill of the process that holds the launcher never loses a run."""

    @property
    def places(self) -> int:
        """Slots wanted at once."""
        ...

    def submit(self, intent: Intent) -> str:
        """Start what the intent says; return the job's id.

        Raises:
            LaunchError: the scheduler refused; its own words are in the message.
        """
        ...

    def observe(self, patience: float | None = None) -> ClusterView:
        """The view of the run's jobs now.

        Args:
            patience: seconds to wait for an answer, which then is about jobs alone; None waits as
                long as it takes, for hints and limits too.

        Raises:
            LaunchError: there is no answer.
        """
        ...

    def cancel(self, jobs: Sequence[str]) -> None:
        """End these jobs: each gets its signal first and may checkpoint."""
        ...

    def close(self) -> None:
        """End what depends on this process; Slurm's jobs go on."""
        ...


@runtime_checkable
class QueueLauncher(Launcher, Protocol):
    """A launcher whose slots wait in a queue, come back to it, and get signals."""

    def signal(self, jobs: Sequence[str]) -> None:
        """Have these running slots look at once whether they are to retire."""
        ...

    def throttle(self, array: str, limit: int) -> None:
        """Let at most so many elements of a submission run at once; 0: all.

        Raises:
            LaunchError: the scheduler refused.
        """
        ...

    def release(self, jobs: Sequence[str]) -> None:
        """Have these jobs, which wait after a requeue, start as soon as there is room."""
        ...


@runtime_checkable
class ScriptLauncher(Launcher, Protocol):
    """A launcher that submits texts, which a person may read, or submit by hand."""

    def script(self, intent: Intent) -> str:
        """The exact text that ``submit`` hands to the scheduler.

        Raises:
            UserError: the configuration can't be put into one.
        """
        ...

    def largest_array(self) -> int | None:
        """Elements that one submission may have; None: any number, or unknown."""
        ...


def array_sizes(slots: int, largest: int | None) -> list[int]:
    """Into how large submissions so many slots are split."""
    whole, rest = divmod(slots, largest or slots)
    return [largest or slots] * whole + [rest] * (rest > 0)


def with_scripts(launcher: Launcher, name: str) -> ScriptLauncher:
    """The launcher itself, which the configuration calls by this name.

    Raises:
        UserError: it submits no scripts.
    """
    if isinstance(launcher, ScriptLauncher):
        return launcher
    raise UserError(f"the launcher '{name}' submits no scripts; add --cluster slurm")

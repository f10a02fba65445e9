"""Owners of claims, and submissions: what the jobs of a run are known by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Owner:
    """The owner of a claim. The same slot of the same job may re-enter it after a requeue."""

    slot: str
    """The slot's name: ``<array job>_<element>`` on Slurm, ``local-<n>`` on this machine."""
    job: str
    """The identity that a requeue keeps: the Slurm job, or the local launcher's token."""
    host: str = ""
    pid: int = 0


@dataclass(frozen=True)
class Intent:
    """A submission, published before it is made, so that it counts once."""

    number: int
    """Its place in the run's order of intents, from 0."""
    token: str
    """A random name that the job carries in its comment, by which it is found again."""
    kind: Literal["slots", "coordinator"]
    count: int = 1
    """Array elements."""
    reports: int = 0
    """Reports on the board when it was published: submitting without progress has a limit."""
    time: float = 0.0
    """Unix time of its publication, in seconds."""
    target: int = 0
    """Slots wanted at once when it was published."""

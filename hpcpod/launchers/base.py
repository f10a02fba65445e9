"""What every launcher promises: slots are submitted, seen and ended, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from hpcpod.errors import UserError
from hpcpod.records import Intent


@dataclass(frozen=True)
class JobView:
    """One process or array element of this run, as the scheduler sees it now."""

    slot: str
    """The slot's name, as in ``Owner.slot``; ``coordinator`` jobs have one too."""
    job: str
    """What ``cancel`` takes."""
    kind: Literal["slots", "coordinator"]
    state: Literal["pending", "running"]
    token: str
    """The intent's token."""
    reason: str = ""
    """Why it is pending, in the scheduler's own word."""
    submission: str = ""
    """What ``submit`` returned for it."""


@dataclass(frozen=True)
class ClusterView:
    """All jobs of this run that are pending or running; what is not here is gone."""

    jobs: tuple[JobView, ...] = ()


class Launcher(Protocol):
    """A way to run slots. Killing whoever holds the launcher never loses a run."""

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
        """What is there now: one question to the scheduler.

        Args:
            patience: seconds to wait for an answer; None waits as long as it takes.

        Raises:
            LaunchError: there is no answer.
        """
        ...

    def cancel(self, jobs: Sequence[str]) -> None:
        """End these jobs: each gets its signal first and may checkpoint."""
        ...

    def close(self) -> None:
        """Let go: what lives only as long as this process is ended; Slurm's jobs live on."""
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


def with_scripts(launcher: Launcher, name: str) -> ScriptLauncher:
    """The launcher itself, which the configuration calls by this name.

    Raises:
        UserError: it submits no scripts.
    """
    if isinstance(launcher, ScriptLauncher):
        return launcher
    raise UserError(f"the launcher '{name}' submits no scripts; add --cluster slurm")

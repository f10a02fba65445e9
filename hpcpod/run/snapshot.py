"""A snapshot of a run at one moment: its board, its slots, its jobs, its requests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from hpcpod.config.schema import RunConfig
from hpcpod.errors import StorageError, UserError
from hpcpod.launchers.base import Cancelled, ClusterView, JobView
from hpcpod.launchers.factory import launcher_of
from hpcpod.launchers.identity import lives
from hpcpod.records.records import Board
from hpcpod.storage.freshness import look_again
from hpcpod.storage.requests import Drain, Resumed, SlotRefused
from hpcpod.storage.restarts import Life
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import element
from hpcpod.tournament.merge import now_of, read_board

RunState = Literal["running", "finals", "draining", "paused", "waiting", "interrupted", "finished"]

STARTING_SECONDS = 30.0
"""A new run that nobody drives yet is only starting."""

DOUBT = (
    "what is seen from here may be a minute old: the run folder can't be written now, and only"
    " where one writes a network filesystem is sure to show the latest"
)
"""The doubt about a run that seems to be run by no process."""

QUEUE_SECONDS = 5.0
"""How long a look at a run waits for the scheduler's answer."""


@dataclass(frozen=True)
class Seen:
    """A run at one moment, as whoever looks can see it."""

    config: RunConfig
    board: Board
    slots: Mapping[str, Mapping[str, Any]]
    """The slots at work, each with what it showed last."""
    lives: Mapping[str, Life]
    """Of every slot that there ever was."""
    drain: Drain | None
    """The request to pause, if there is one."""
    refused: str
    """Why a slot could do nothing for the run, if one said so."""
    driven: bool
    """Of a run on one machine: somebody runs its slots, as far as can be told."""
    view: ClusterView | None
    """What the scheduler knows of the run's jobs; None if it was not asked, or can't be."""
    unknown: str
    """Why the scheduler could not be asked, in one sentence."""
    now: float
    """Unix time in seconds."""
    clock: float
    """The same by the clock of the board's times."""
    doubt: str = ""
    """The doubt about ``state``, in one sentence: a process that is not seen here may run it."""
    cancelled: tuple[tuple[Cancelled, bool], ...] = ()
    """Slots that somebody has cancelled lately, though they were wanted; of each, whether slots
    were asked for since."""

    @cached_property
    def state(self) -> RunState:
        """What the run does now, in a word."""
        if self.board.phase == "finished":
            return "finished"
        if self.drain is not None:
            return "draining" if self.slots else "paused"
        if self.slots:
            return "finals" if self.board.phase == "finals" else "running"
        return "interrupted" if self.alone and not self.doubt else "waiting"

    @property
    def alone(self) -> bool:
        """Nobody is seen to run it, nor is it only starting."""
        nobody = not self.view.jobs if self.view is not None else not self.driven
        starting = self.clock - self.board.started < STARTING_SECONDS
        return nobody and not self.slots and not starting

    @property
    def waiting(self) -> list[JobView]:
        """Jobs of slots that the scheduler has not started."""
        return self._jobs("pending")

    @property
    def running(self) -> int:
        """Jobs of slots that run, by the scheduler, else by what slots show."""
        if self.view is None:
            return len({element(slot) for slot in self.slots})
        return len(self._jobs("running"))

    @property
    def coordinators(self) -> list[JobView]:
        """Jobs of the coordinator in the queue."""
        jobs = () if self.view is None else self.view.jobs
        return [job for job in jobs if job.kind == "coordinator"]

    @property
    def pause_reason(self) -> str:
        """Why the coordinator has paused the run; empty if a person did."""
        return (self.drain.reason if self.drain else None) or ""

    def _jobs(self, state: str) -> list[JobView]:
        jobs = () if self.view is None else self.view.jobs
        return [job for job in jobs if job.kind == "slots" and job.state == state]


def see(
    folder: RunFolder,
    board: Board | None = None,
    *,
    ask: bool = False,
    view: ClusterView | None = None,
) -> Seen:
    """Look at a run; twice where it seems that nobody works on it, for then somebody may have
    done so a moment ago, and this machine only remember what was before.

    Args:
        folder: the run's.
        board: one that was read before; by default the latest.
        ask: ask the scheduler, too, if the run has one and has not finished.
        view: what the scheduler said already.
    """
    config = folder.resolved.config
    here = config.cluster.launcher == "local"
    # Before the board is read: a run that ends meanwhile has ended there.
    driven = not here or folder.locks.driven() is not False
    board = board or read_board(folder)
    unknown = ""
    if ask and view is None and not here and board.phase != "finished":
        view, unknown = _ask(folder)
    now = clock = time.time()
    with contextlib.suppress(StorageError):  # read-only: this machine's clock has to do
        clock = now_of(folder, board)
    seen = Seen(
        config=config,
        board=board,
        slots=_slots(folder),
        lives=folder.restarts.all(),
        drain=folder.requests.read(Drain),
        refused=(folder.requests.read(SlotRefused) or SlotRefused()).reason,
        driven=driven,
        view=view,
        unknown=unknown,
        now=now,
        clock=clock,
        cancelled=_cancelled(folder, view),
    )
    at_work = seen.slots or seen.board.phase == "finished"
    if at_work or not (seen.alone or seen.drain is not None or seen.view is not None):
        return seen
    return _seen_anew(folder, seen)


def _cancelled(folder: RunFolder, view: ClusterView | None) -> tuple[tuple[Cancelled, bool], ...]:
    """Cancelled slots, but for those told to leave, and those that ended before a person resumed or
    scaled the run: then its own coordinator cancels what is too much."""
    if view is None or not view.cancelled:
        return ()
    since = (folder.requests.read(Resumed) or Resumed()).time
    made = [intent for intent in folder.intents.all() if intent.kind == "slots"]
    ours = {folder.intents.submission(intent.number) for intent in made}
    last = max((intent.time for intent in made), default=0.0)
    leaving = folder.slots.retirees()
    return tuple(
        (slot, last >= slot.at)
        for slot in view.cancelled
        if slot.submission in ours and slot.at > since and slot.slot not in leaving
    )


def _seen_anew(folder: RunFolder, seen: Seen) -> Seen:
    """The run as the server has it, not as this machine remembers it.

    Who runs it was asked before: all that those have done who are gone is seen now.
    """
    sure = look_again(folder)
    latest = read_board(folder)
    board = latest if latest.phase == "finished" else seen.board
    seen = replace(seen, board=board, slots=_slots(folder), drain=folder.requests.read(Drain))
    return seen if sure or not seen.alone else replace(seen, doubt=DOUBT)


def _slots(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """The slots at work."""
    return {name: shown for name, shown in folder.slots.all().items() if _at_work(shown)}


def _ask(folder: RunFolder) -> tuple[ClusterView | None, str]:
    if not folder.owner.mine:
        return None, f"the scheduler tells its jobs to {folder.owner.name} only, who owns the run"
    try:
        return launcher_of(folder).observe(QUEUE_SECONDS), ""
    except UserError as error:
        return None, str(error)


def _at_work(shown: Mapping[str, Any]) -> bool:
    """Whether a slot's last word is from a slot that still lives, as far as can be seen here."""
    silence = time.time() - shown["mtime"]
    return lives(shown.get("host", ""), shown.get("pid", 0), silence)

"""A look at a run by people: its board, its slots, its jobs, its requests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

from hpcpod.errors import StorageError, UserError
from hpcpod.launchers.base import Cancelled, ClusterView, Launcher
from hpcpod.launchers.factory import launcher_here, require_launcher
from hpcpod.launchers.identity import process_alive
from hpcpod.orchestrator.backoff import Backoff
from hpcpod.orchestrator.snapshot import Snapshot, backoff_of, counted, submissions
from hpcpod.records.records import Board
from hpcpod.storage.freshness import refresh_run
from hpcpod.storage.requests import Drain, Resumed, SlotRefused
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus
from hpcpod.tournament.merge import now_of, read_board

DOUBT = (
    "what is seen from here may be a minute old: the run folder can't be written now, and only"
    " where one writes a network filesystem is sure to show the latest"
)
"""The doubt about a run that seems to be run by no process."""

QUEUE_SECONDS = 5.0
"""Seconds that a look at a run waits for the scheduler's answer."""


def see(
    folder: RunFolder,
    board: Board | None = None,
    *,
    ask: bool = False,
    failures: bool = False,
    known: Snapshot | None = None,
) -> Snapshot:
    """Look at a run; twice where it seems that no process works on it, for then one may have
    done so a moment ago, and this machine only remember what was before.

    Args:
        folder: the run's.
        board: one that was read before; by default the latest.
        ask: ask the scheduler, too, if the run has one and has not finished: once.
        failures: read its submissions, too, and their failures.
        known: has the slots and the records of their restarts, which are not read again.
    """
    here = folder.resolved.config.cluster.launcher == "local"
    # Before the board is read: a run that ends meanwhile has ended there.
    driven = not here or folder.locks.driven() is not False
    board = board or read_board(folder)
    numbered, intents, submitted = submissions(folder) if failures else (0, (), {})
    # A local run's would start nvidia-smi; the process that runs its slots has counted its GPUs.
    launcher = None if here else launcher_here(folder)
    view, unknown = None, ""
    if ask and launcher is not None and board.phase != "finished":
        view, unknown = _ask(folder, launcher)
    backoff = Backoff()
    if failures and view is not None:
        backoff = backoff_of(folder, board, view, intents, submitted)
    now = clock = time.time()
    with contextlib.suppress(StorageError):  # read-only: this machine's clock has to do
        clock = now_of(folder, board)
    seen = replace(
        counted_here(folder, board, launcher),
        now=now,
        clock=clock,
        view=view,
        unknown=unknown,
        drain=folder.requests.read(Drain),
        refused=folder.requests.read_or_default(SlotRefused).reason,
        slots=slots_at_work(folder.slots.all()) if known is None else known.slots,
        restarts=folder.restarts.all() if known is None else known.restarts,
        intents=intents,
        numbered=numbered,
        submitted=submitted,
        backoff=backoff,
        driven=driven,
        cancelled=_cancelled(folder, view),
    )
    at_work = seen.slots or seen.board.phase == "finished"
    if at_work or not (seen.alone or seen.draining or seen.view is not None):
        return seen
    return _seen_anew(folder, seen)


def counted_here(folder: RunFolder, board: Board, launcher: Launcher | str | None) -> Snapshot:
    """As ``counted``; if the number of slots is unknown here, ``unknown`` has the reason."""
    try:
        if not isinstance(launcher, str):
            require_launcher(folder)
            return counted(folder, board, launcher)
        why = launcher
    except UserError as error:
        why = str(error)
    return Snapshot(folder.path, folder.resolved.config, board, unknown=why)


def _cancelled(folder: RunFolder, view: ClusterView | None) -> tuple[tuple[Cancelled, bool], ...]:
    """Cancelled slots, but for those that retire, and those that ended before a person resumed or
    scaled the run: then its own coordinator cancels what is too much."""
    if view is None or not view.cancelled:
        return ()
    # squeue shows an ended job for MinJobAge: 300 s by default.
    since = folder.requests.read_or_default(Resumed).time
    made = [intent for intent in folder.intents.all() if intent.kind == "slots"]
    ours = {folder.intents.submission(intent.number) for intent in made}
    last = max((intent.time for intent in made), default=0.0)
    leaving = folder.slots.retirees()
    return tuple(
        (slot, last >= slot.at)
        for slot in view.cancelled
        if slot.submission in ours and slot.at > since and slot.slot not in leaving
    )


def _seen_anew(folder: RunFolder, seen: Snapshot) -> Snapshot:
    """The run as the server has it, not as this machine remembers it.

    Who runs it was asked before: all that those have done who are gone is seen now.
    """
    sure = refresh_run(folder)  # opens and writes: no NFS client answers that from memory
    latest = read_board(folder)
    board = latest if latest.phase == "finished" else seen.board
    seen = replace(
        seen,
        board=board,
        slots=slots_at_work(folder.slots.all()),
        drain=folder.requests.read(Drain),
    )
    return seen if sure or not seen.alone else replace(seen, doubt=DOUBT)


def slots_at_work(every: Mapping[str, SlotStatus]) -> dict[str, SlotStatus]:
    """Of the slots that have shown something those at work: their processes are alive, as far as
    can be seen here."""
    now = time.time()
    return {
        name: shown
        for name, shown in every.items()
        if process_alive(
            shown.host or "", shown.pid or 0, now - (shown.mtime or 0.0)
        )  # s of silence
    }


def _ask(folder: RunFolder, launcher: Launcher | str) -> tuple[ClusterView | None, str]:
    if not folder.owner.mine:
        return None, f"the scheduler tells its jobs to {folder.owner.name} only, who owns the run"
    if isinstance(launcher, str):
        return None, launcher
    try:
        return launcher.observe(QUEUE_SECONDS), ""  # jobs alone: sinfo and scontrol are not asked
    except UserError as error:
        return None, str(error)

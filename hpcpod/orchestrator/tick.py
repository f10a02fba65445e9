"""One tick: observe, plan, act."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Sequence

from hpcpod.errors import LaunchError
from hpcpod.launchers.base import Launcher, QueueLauncher
from hpcpod.orchestrator.plan import (
    Action,
    Cancel,
    Merge,
    Pause,
    Record,
    Release,
    Retire,
    Submit,
    Throttle,
    plan,
)
from hpcpod.orchestrator.snapshot import Snapshot, observe, refusals_of
from hpcpod.records.records import Board, Intent
from hpcpod.storage.disk import explained
from hpcpod.storage.locks import time_of_disk
from hpcpod.storage.requests import Drain, Refusals, SlotRefused
from hpcpod.storage.retry import PAUSES
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import When
from hpcpod.tournament.leaderboard import needed_checkpoints
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.on_finish import run_on_finish
from hpcpod.tournament.rules import Rules

log = logging.getLogger(__name__)

SOON_SECONDS = 300.0  # a requeued job waits 121 s by default until it is let back
"""While a slot has less time left than this, the coordinator's pauses do not grow."""

PRUNED = "pruned"
"""File in ``lease/`` whose time is that of the last removal."""

PRUNE_SECONDS = 600.0
"""Pause between two removals of checkpoints that no reader needs any more."""

LEFTOVER_SECONDS = 2 * sum(PAUSES)
"""Age of what is removed: no report names a checkpoint yet while its slot waits for the disk."""


class Orchestrator:
    """Ticks one run. Without a launcher it only merges: nothing is submitted or ended. Nor is it
    with one where the run is another user's, whose jobs this one does not see."""

    def __init__(self, folder: RunFolder, launcher: Launcher | None) -> None:
        self._folder = folder
        self.path = folder.path
        self._launcher = launcher if folder.owner.mine else None
        self._config = folder.resolved.config
        self._rules = Rules.of_run(folder)
        self._control = 0
        self._before: set[tuple[str, str]] | None = None
        self.drained = False
        """A drain was asked for, and at the last tick no slot was left."""
        self.quiet = False
        """At the last tick there was nothing to do, and the queue was as at the one before."""

    def board(self) -> Board:
        """The board as it is, without a tick."""
        return read_board(self._folder)

    def tick(self, *, strict: bool = False) -> Board:
        """Observe, plan, act; return the board as it is then.

        Args:
            strict: raise what the scheduler refuses, for those who have just asked for it.

        Raises:
            LaunchError: the scheduler does not answer, or if ``strict``, refused.
        """
        if self._launcher is None:
            board = merge(self._folder, self._rules)
            run_on_finish(self._folder, board)
            return board
        # First: what is asked meanwhile is seen to next, and a tick that fails is not asked for.
        self._control = self._folder.requests.changed()
        self._prune()  # before a merge, which a full disk refuses
        observed = observe(self._folder, self._launcher)
        if observed.refused and _has_reported_since(observed):  # who still refuses says so again
            self._folder.requests.withdraw(SlotRefused)
        board = observed.board
        actions = plan(observed, lambda: secrets.token_hex(8))
        board = self._carry_out(actions, self._launcher, board, strict)
        if board.phase == "finished" != observed.board.phase:
            return self.tick(strict=strict)  # what still waits in the queue is ended
        run_on_finish(self._folder, board)
        slots = [job for job in observed.cluster.jobs if job.kind == "slots"]
        self.drained = observed.draining and not slots
        # A throttle that holds no slot back yet can't be seen, and is set again.
        idle = all(isinstance(action, (Merge, Throttle)) for action in actions)
        jobs = {(job.job, str(job.state)) for job in observed.cluster.jobs}
        lefts = [job.left for job in observed.cluster.jobs if job.left is not None]
        # Slots near their time limit come back soon, and then wait to be let in.
        soon = min(lefts, default=math.inf) < SOON_SECONDS
        self.quiet = idle and self._before == jobs and not soon
        self._before = jobs
        return board

    def _prune(self) -> None:
        """Remove what no reader needs any more, if nobody has for long. The time of the last one is
        on the disk: what ticks once, as ``hpcpod tick`` does, remembers nothing."""
        folder = self._folder.path / "lease"
        mark, now = folder / PRUNED, time_of_disk(folder)
        try:
            if now - mark.stat().st_mtime <= PRUNE_SECONDS:
                return
        except FileNotFoundError:  # a new run, or one of an older version
            with explained("write", mark):
                mark.touch()
            return
        self._folder.disk.touch(mark)
        self._folder.prune(needed_blobs(self._folder), LEFTOVER_SECONDS)

    def _carry_out(
        self, actions: Sequence[Action], launcher: Launcher, board: Board, strict: bool
    ) -> Board:
        """Act; the board after it, by default this one."""
        refused = beaten = False
        for action in actions:
            try:
                if not isinstance(action, Submit):
                    board = self._act(action, launcher) or board
                elif action.intent.kind == "coordinator":
                    beaten = not self._submit(action, launcher) or beaten
                # What is split over several arrays is refused once. And where another coordinator
                # was faster, this plan is for a queue that is no more.
                elif not (refused or beaten):
                    beaten = not self._submit(action, launcher)
            except LaunchError as error:
                if strict:
                    raise
                refused = refused or (isinstance(action, Submit) and action.intent.kind == "slots")
                log.warning("%s; it is seen to at a later tick", error)
        return board

    def asked(self) -> bool:
        """True if a person has asked something of the run since the last tick."""
        return self._folder.requests.changed() != self._control

    def _act(self, action: Action, launcher: Launcher) -> Board | None:
        if isinstance(action, Merge):
            for order in action.lost:
                log.info("%s: its slot is gone, it is given out again", order)
            if action.size is not None:
                log.info("%d pods may be in training at once", action.size)
            return merge(self._folder, self._rules, lost=action.lost, size=action.size)
        if isinstance(action, Pause):
            log.error("the run is paused: %s", action.why)
            self._folder.requests.publish(Drain(reason=action.why))
        elif isinstance(action, Record):
            # its launcher died between sbatch and this
            self._folder.intents.record(action.number, action.job)
            self._folder.requests.withdraw(Refusals)
        elif isinstance(action, Cancel):
            log.info("ending %d jobs: %s", len(action.jobs), action.why)
            launcher.cancel(action.jobs)
        elif isinstance(action, Retire):
            self._retire(action, launcher)
        elif isinstance(launcher, QueueLauncher):
            if isinstance(action, Throttle):
                log.info("array %s: %s may run at once", action.array, action.limit or "all")
                launcher.throttle(action.array, action.limit)
            elif isinstance(action, Release):
                launcher.release(action.jobs)
        return None

    def _retire(self, action: Retire, launcher: Launcher) -> None:
        when: When = "now" if action.at_once else "round"
        log.info("%d slots are to leave (%s): %s", len(action.slots), when, action.why)
        for slot in action.slots:
            self._folder.slots.retire(slot, when, action.why)
        if action.at_once and isinstance(launcher, QueueLauncher):
            launcher.signal(action.slots)

    def _submit(self, action: Submit, launcher: Launcher) -> bool:
        """Submit; False if another coordinator was faster."""
        try:
            job = submit(self._folder, launcher, action.intent)
        except LaunchError as error:
            if action.intent.kind == "slots":
                before = refusals_of(self._folder)
                now = Refusals(before.count + 1, time.time(), str(error))
                self._folder.requests.replace(now)
            raise
        if job is not None and action.intent.kind == "slots":
            self._folder.requests.withdraw(Refusals)
        return job is not None


def _has_reported_since(observed: Snapshot) -> bool:
    """True if a report has come since the last submission of slots."""
    made = [i for i in observed.intents if i.kind == "slots" and i.number in observed.submitted]
    return not made or made[-1].reports != observed.board.reports


def needed_blobs(folder: RunFolder) -> set[str]:
    """The sha256 of every blob that must not be pruned: the board's, and those of open rounds."""
    # First the rounds, then the board: what moves from there to here meanwhile is seen twice.
    resumes = folder.checkpoints.all()
    board = read_board(folder)
    needed = needed_checkpoints(board)
    for pod, checkpoints in resumes.items():
        if pod in board.pods and board.pods[pod].birth is not None:
            needed.update(blob for checkpoint in checkpoints for blob in checkpoint.blobs())
    return needed


def submit(folder: RunFolder, launcher: Launcher, intent: Intent) -> str | None:
    """Submit an intent so that it counts once, though others may try; return the job, or None.

    The intent is published before the job exists, and the job recorded after. If another
    coordinator was faster at either, this one's job, if any, is ended.

    Raises:
        LaunchError: the scheduler refused.
    """
    if not folder.intents.publish(intent):
        return None
    job = launcher.submit(intent)
    winner = folder.intents.record(intent.number, job)
    if winner == job:
        return job
    log.warning("intent %d was submitted as job %s already", intent.number, winner)
    launcher.cancel([view.job for view in launcher.observe().jobs if view.submission == job])
    return None

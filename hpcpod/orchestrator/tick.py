"""One tick: observe, plan, act."""

from __future__ import annotations

import logging
import secrets
import time
from pathlib import Path

from hpcpod import plugins
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.launchers.admission import BY_HAND
from hpcpod.launchers.base import Launcher
from hpcpod.orchestrator.plan import (
    Action,
    Cancel,
    Merge,
    Observed,
    Pause,
    Record,
    in_vain,
    plan,
)
from hpcpod.records import Board, Intent
from hpcpod.storage.patience import PAUSES
from hpcpod.storage.run_folder import REFUSED, RunFolder
from hpcpod.tournament.leaderboard import needed_checkpoints, orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules

log = logging.getLogger(__name__)


RESUMED = "resumed"
"""The request by which a person says that the run goes on from here, whatever was before."""

PRUNE_SECONDS = 600.0
"""Between two sweeps for checkpoints that nothing needs any more."""

DUST_SECONDS = 2 * sum(PAUSES)
"""Age of what is swept: no report names a checkpoint yet while its slot waits for the disk."""


class Orchestrator:
    """Ticks one run. Without a launcher it only merges: nothing is submitted or ended."""

    def __init__(self, folder: RunFolder, launcher: Launcher | None) -> None:
        resolved = Resolved.from_document(folder.config)
        self._folder = folder
        self._launcher = launcher
        self._config = resolved.config
        self._rules = Rules.of(resolved.config, resolved.algorithms)
        self._pruned = time.monotonic()
        self.drained = False
        """A drain was asked for, and at the last tick no slot was left."""

    def board(self) -> Board:
        """The board as it is, without a tick."""
        return read_board(self._folder)

    def tick(self) -> Board:
        """Observe, plan, act; return the board as it is then."""
        if self._launcher is None:
            return merge(self._folder, self._rules)
        observed = self.observe(self._launcher)
        if observed.refused and not in_vain(observed):  # a report came; who still refuses says so
            self._folder.withdraw(REFUSED)
        board = observed.board
        for action in plan(observed, lambda: secrets.token_hex(8)):
            board = self._act(action, self._launcher) or board
        slots = [job for job in observed.cluster.jobs if job.kind == "slots"]
        self.drained = observed.draining and not slots
        self._prune()
        return board

    def observe(self, launcher: Launcher) -> Observed:
        """Read the run folder, then ask the scheduler once: in this order (see ``alive``)."""
        folder = self._folder
        board = read_board(folder)
        owners = {order.id: folder.claim_owner(order.id) for order in orders(board)}
        claims = {order: owner for order, owner in owners.items() if owner is not None}
        # Slots that no scheduler knows: by hand, and those of another driver of a local run.
        here = self._config.cluster.launcher == "local"
        strangers = [o.slot for o in claims.values() if here or o.slot.startswith(BY_HAND)]
        intents = tuple(folder.intents())
        submitted = {i.number: folder.submission(i.number) for i in intents}
        return Observed(
            board=board,
            cluster=launcher.observe(),
            places=launcher.places,
            claims=claims,
            silence={slot: folder.silence(slot) for slot in strangers},
            intents=intents,
            submitted={number: job for number, job in submitted.items() if job is not None},
            resumed=(folder.requested(RESUMED) or {}).get("intents", 0),
            draining=folder.requested("drain") is not None,
            refused=(folder.requested(REFUSED) or {}).get("reason", ""),
            max_restarts=self._config.cluster.max_restarts,
        )

    def _act(self, action: Action, launcher: Launcher) -> Board | None:
        if isinstance(action, Merge):
            for order in action.lost:
                log.info("%s: its slot is gone, it is given out again", order)
            if action.failure:
                log.error("the run is given up: %s", action.failure)
            stop = "failed" if action.failure else None
            return merge(
                self._folder, self._rules, lost=action.lost, stop=stop, failure=action.failure
            )
        if isinstance(action, Pause):
            log.error("the run is paused: %s", action.why)
            self._folder.request("drain", {"reason": action.why})
        elif isinstance(action, Record):
            self._folder.record_submission(action.number, action.job)
        elif isinstance(action, Cancel):
            log.info("ending %d jobs: %s", len(action.jobs), action.why)
            launcher.cancel(action.jobs)
        else:
            submit(self._folder, launcher, action.intent)
        return None

    def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self._folder.prune(needed_blobs(self._folder), DUST_SECONDS)


def needed_blobs(folder: RunFolder) -> set[str]:
    """The sha256 of every blob that must not be pruned: the board's, and those of open rounds."""
    # First the rounds, then the board: what moves from there to here meanwhile is seen twice.
    resumes = folder.resumes()
    board = read_board(folder)
    needed = needed_checkpoints(board)
    for pod, checkpoints in resumes.items():
        if pod in board.pods and board.pods[pod].birth is not None:
            needed.update(blob for checkpoint in checkpoints for blob in checkpoint.blobs())
    return needed


def submit(folder: RunFolder, launcher: Launcher, intent: Intent) -> str | None:
    """Submit an intent so that it counts once, whoever else tries: the job, or None.

    The intent is published before the job exists, and the job recorded after. If another
    coordinator was faster at either, this one's job, if any, is ended.

    Raises:
        LaunchError: the scheduler refused.
    """
    if not folder.publish_intent(intent):
        return None
    job = launcher.submit(intent)
    winner = folder.record_submission(intent.number, job)
    if winner == job:
        return job
    log.warning("intent %d was submitted as job %s already", intent.number, winner)
    launcher.cancel([view.job for view in launcher.observe().jobs if view.submission == job])
    return None


def make_launcher(path: Path, config: RunConfig) -> Launcher:
    """The launcher that a configuration names, for the run folder at ``path``.

    Raises:
        UserError: there is none of this name, or this machine lacks what it needs.
    """
    launcher: Launcher = plugins.make(Launcher, "launchers", config.cluster.launcher, path, config)
    return launcher


def launcher_of(folder: RunFolder) -> Launcher:
    """The launcher of a run."""
    return make_launcher(folder.path, Resolved.from_document(folder.config).config)

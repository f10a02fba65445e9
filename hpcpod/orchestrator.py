"""The orchestrator: observe the run and the scheduler, plan, act; nothing is kept in memory.

Its state is the run folder, so it may be killed at any time, two may run at once, and
``hpcpod tick`` by hand does what the coordinator job does.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod import plugins
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError, StorageError, exit_code
from hpcpod.launchers.admission import BY_HAND, admitted, alive, identity
from hpcpod.launchers.base import ClusterView, JobView, Launcher
from hpcpod.launchers.local import LocalLauncher
from hpcpod.lifetime import REQUEUE
from hpcpod.pod.signals import StopFlag
from hpcpod.records import Board, Intent, Owner
from hpcpod.storage.patience import PAUSES, sleep
from hpcpod.storage.run_folder import REFUSED, RunFolder
from hpcpod.tournament.leaderboard import needed_checkpoints, orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules

log = logging.getLogger("hpcpod.orchestrator")

RESUMED = "resumed"
"""The request by which a person says that the run goes on from here, whatever was before."""

PRUNE_SECONDS = 600.0
"""Between two sweeps for checkpoints that nothing needs any more."""

DUST_SECONDS = 2 * sum(PAUSES)
"""Age of what is swept: no report names a checkpoint yet while its slot waits for the disk."""


@dataclass(frozen=True)
class Observed:
    """All that a plan is made from."""

    board: Board
    cluster: ClusterView
    places: int
    """Slots wanted at once."""
    claims: Mapping[str, Owner] = field(default_factory=dict)
    """Owners of open orders, read *before* the scheduler was asked."""
    silence: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which an owner that no scheduler knows has shown nothing, by its slot."""
    intents: tuple[Intent, ...] = ()
    submitted: Mapping[int, str] = field(default_factory=dict)
    """The job that counts for an intent, by the intent's number."""
    resumed: int = 0
    """Intents that there were when a person last resumed the run."""
    draining: bool = False
    refused: str = ""
    """Why a slot could do nothing for the run, if one said so since the last report."""
    max_restarts: int = 3


@dataclass(frozen=True)
class Merge:
    """Fold reports into the board; the slots of these orders are gone."""

    lost: tuple[str, ...] = ()
    failure: str = ""
    """Why the run is given up, in one sentence; empty if it goes on."""


@dataclass(frozen=True)
class Record:
    """Say that a job in the queue is the one of an intent that has none on record."""

    number: int
    job: str


@dataclass(frozen=True)
class Submit:
    """Submit an intent; a new one is published first."""

    intent: Intent


@dataclass(frozen=True)
class Pause:
    """Drain the run: nothing goes on until a person has done something."""

    why: str


@dataclass(frozen=True)
class Cancel:
    """End these jobs."""

    jobs: tuple[str, ...]
    why: str


Action = Merge | Record | Submit | Pause | Cancel


def plan(observed: Observed, token: Callable[[], str]) -> list[Action]:
    """What to do now. Pure but for ``token``, which names a new intent."""
    slots = [job for job in observed.cluster.jobs if job.kind == "slots"]
    if observed.board.phase == "finished":
        return [Merge(), *_cancel(slots, "the run has ended")]
    gone = tuple(
        order
        for order, owner in observed.claims.items()
        if not alive(owner, observed.cluster, observed.silence)
    )
    if observed.draining:
        waiting = [job for job in slots if job.state == "pending"]
        return [Merge(gone), *_cancel(waiting, "the run is draining")]
    doubles = _doubles(observed, slots)
    actions: list[Action] = [*_cancel(doubles, "its intent was submitted twice")]
    unrecorded = [i for i in observed.intents if i.number not in observed.submitted]
    in_queue = {job.token: job.submission for job in observed.cluster.jobs}
    in_vain = _in_vain(observed)
    hopeless = in_vain > observed.max_restarts
    missing = min(observed.places, len(orders(observed.board))) - len(slots) + len(doubles)
    for intent in unrecorded:
        if intent.token in in_queue:
            actions.append(Record(intent.number, in_queue[intent.token]))
        elif intent.kind == "slots" and intent.count <= missing and not hopeless:
            actions.append(Submit(intent))
            missing -= intent.count
    if missing > 0 and hopeless:
        if slots:  # they may still bring a report; more of what dies will not
            return [*actions, Merge(gone)]
        if observed.refused:
            return [*actions, Merge(gone), Pause(observed.refused)]
        row = "1 submission" if in_vain == 1 else f"{in_vain} submissions in a row"
        why = f"{row} brought no report; see `hpcpod logs`"
        return [*actions, Merge(gone, why)]
    if missing > 0:
        number = max((i.number + 1 for i in observed.intents), default=0)
        actions.append(Submit(Intent(number, token(), "slots", missing, observed.board.reports)))
    return [*actions, Merge(gone)]


def _cancel(jobs: list[JobView], why: str) -> list[Action]:
    return [Cancel(tuple(job.job for job in jobs), why)] if jobs else []


def _doubles(observed: Observed, slots: list[JobView]) -> list[JobView]:
    """Slots of a submission that another one of the same intent has beaten."""
    winners = {i.token: observed.submitted.get(i.number) for i in observed.intents}
    return [
        job for job in slots
        if job.submission and winners.get(job.token) not in (None, job.submission)
    ]  # fmt: skip


def _in_vain(observed: Observed) -> int:
    """Submissions of slots since the last report that counted, and since a person resumed the
    run: what a drain or a Ctrl-C has ended did not fail."""
    made = [i for i in observed.intents if i.kind == "slots" and i.number in observed.submitted]
    recent = [i for i in made if i.number >= observed.resumed]
    return sum(1 for i in recent if i.reports == observed.board.reports)


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
        if observed.refused and not _in_vain(observed):  # a report came; who still refuses says so
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


def drive(
    orchestrator: Orchestrator,
    stop: Callable[[], bool],
    seconds: float,
    on_tick: Callable[[Board], None] = lambda board: None,
) -> Board:
    """Tick until the run has ended or is drained, or ``stop`` says so; return the last board.

    A scheduler or a disk that refuses is asked again at the next tick.
    """
    while True:
        board = None
        try:
            board = orchestrator.tick()
            on_tick(board)
        except (LaunchError, StorageError) as error:
            log.warning("%s; trying again at the next tick", error)
        if board is not None and (board.phase == "finished" or orchestrator.drained):
            return board
        if stop():
            return board if board is not None else orchestrator.board()
        sleep(seconds, stop)


def drive_here(
    folder: RunFolder,
    stop: Callable[[], bool],
    on_tick: Callable[[Board], None] = lambda board: None,
    on_death: Callable[[str], object] = log.error,
) -> Board:
    """Run the slots of a local run as children of this process, and tick until it ends.

    However this returns or raises, no slot is left.

    Raises:
        LaunchError: another process does so already.
    """
    with folder.driver_lock() as alone:
        if alone is False:
            raise LaunchError(f"another process runs the slots of {folder.path} already")
        config = Resolved.from_document(folder.config).config
        launcher = LocalLauncher(folder.path, config, on_death)
        interval = config.cluster.tick_interval
        try:
            return drive(Orchestrator(folder, launcher), stop, interval, on_tick)
        finally:
            launcher.close()


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.orchestrator RUN``: the coordinator, as a job or a process here."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.orchestrator", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--token", help="the intent that it was submitted for")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    told = StopFlag((signal.SIGTERM, signal.SIGUSR2))

    def stop() -> bool:
        # The kernel's parent-death signal comes when the *thread* that started this ends.
        return bool(told) or options.parent not in (None, os.getppid())

    return exit_code(lambda: _coordinate(options.run, options.token, stop), log.error)


def _coordinate(run: Path, token: str | None, stop: Callable[[], bool]) -> int:
    folder = RunFolder.open(run)
    cluster = Resolved.from_document(folder.config).config.cluster
    if cluster.launcher == "local":
        board = drive_here(folder, stop)
        return 0 if board.phase == "finished" or not stop() else REQUEUE
    if not admitted(folder, token, identity()):
        return 0
    orchestrator = Orchestrator(folder, launcher_of(folder))
    while not stop():
        with folder.coordinator_lease() as leading:
            if leading:
                board = drive(orchestrator, stop, cluster.tick_interval)
                if board.phase == "finished" or orchestrator.drained:
                    log.info("the run has ended: %s", board.stop_reason or "drained")
                    return 0
            elif read_board(folder).phase == "finished":
                return 0
        if not stop():
            time.sleep(1.0)
    return REQUEUE


if __name__ == "__main__":
    sys.exit(main())

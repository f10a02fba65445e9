"""A slot is one array element: it claims orders and executes them until its time is up.

It is a small supervisor without torch. The training runs in a child process that it feeds
with orders, so that an out-of-memory kill or a segfault ends a round and not the slot.

Exit codes: 0 there is nothing more to do, 1 this slot keeps failing, 75 requeue me.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hpcpod.config.resolved import Resolved
from hpcpod.errors import Corrupt, StorageError, exit_code
from hpcpod.launchers.admission import REQUEUE, admitted, identity
from hpcpod.pod.child import Child, ChildDied
from hpcpod.pod.signals import StopFlag, die_with_parent
from hpcpod.records import Board, Order, Owner, Report, Rescore, decode
from hpcpod.storage.patience import patiently, sleep
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules

log = logging.getLogger("hpcpod.slot")

IDLE_SECONDS = (0.1, 5.0)
"""Shortest and longest pause between two looks at a board that has nothing to claim."""

GLANCE_SECONDS = 0.1
"""Between two glances at the stop flag while the child works: a grace period may be short."""

_HUNG = "the training process gave no sign of life for {:g} s (pod.hang_seconds): killed"

BROKEN = ("crash", "memory")
"""Kinds of failure after which the training process is not used again."""


@dataclass(frozen=True)
class Pace:
    """How often a slot looks up from its work, in seconds."""

    look: float
    """Between two looks into the run folder for a stop request."""
    tell: float
    """Between two status files, for those who watch."""
    grace: float
    """How long a child that was asked to stop may take before it is killed: less than whoever
    ends this slot gives it."""


class Slot:
    """Claim, train, report, merge; again."""

    def __init__(self, folder: RunFolder, owner: Owner, stop: StopFlag) -> None:
        self._folder = folder
        self._owner = owner
        self._stop = stop
        resolved = Resolved.from_document(folder.config)
        self._config = resolved.config
        self._rules = Rules.of(resolved.config, resolved.algorithms)
        here = resolved.config.cluster.launcher == "local"
        self._pace = Pace(0.5, 0.5, 15.0) if here else Pace(5.0, 30.0, 60.0)
        self._child: Child | None = None
        self._pod: str | None = None
        self._failures = 0
        self._told = self._looked = 0.0

    def run(self) -> int:
        """Work until the run ends, a stop is asked for, or this slot keeps failing.

        Raises:
            StorageError: the filesystem refused for longer than ``patiently`` waits.
        """
        try:
            return self._work()
        except StorageError as error:
            if not self._stopping():
                raise
            log.error("%s; what was not saved is done again", error)
            return self._farewell()
        finally:
            self._end_child()
            with contextlib.suppress(StorageError):
                self._folder.drop_slot(self._owner.slot)

    def _work(self) -> int:
        pause = IDLE_SECONDS[0]
        self._tell({"state": "idle"}, force=True)  # whoever claims must have shown life
        while not self._ending():
            board = patiently(partial(read_board, self._folder), self._ending)
            if board.phase == "finished":
                return 0
            order = patiently(partial(self.claim, board), self._ending)
            if order is None:
                self._tell({"state": "idle"}, force=True)
                sleep(pause, self._ending)
                pause = min(2 * pause, IDLE_SECONDS[1])
                continue
            pause = IDLE_SECONDS[0]
            if self._folder.has_report(order.id):  # a former life ended before its merge
                patiently(partial(merge, self._folder, self._rules), self._ending)
                continue
            if board.began is None:
                patiently(partial(merge, self._folder, self._rules, at_work=True), self._ending)
            report = patiently(partial(self.execute, order), self._stopping)
            if report is None:
                continue
            try:
                patiently(partial(self._publish, report), self._stopping)
            except Corrupt as error:
                log.error("%s: its round is done again", error)
                continue
            if self._gives_up(report):
                return 1
        return self._farewell()

    def _publish(self, report: Report) -> None:
        if report.checkpoint is not None and not self._folder.holds(report.checkpoint):
            # This machine was suspended for so long that they were taken for dust.
            raise Corrupt(f"{report.order}: the blobs of its checkpoint are gone")
        self._folder.publish_report(report)
        merge(self._folder, self._rules)

    def _farewell(self) -> int:
        return REQUEUE if self._stop and not self._told_to_end() else 0

    def claim(self, board: Board) -> Order | None:
        """Take the open order with the least experience; among equals, this slot's own pod.

        A claim of this slot's own, from before a requeue, is taken up again first.
        """
        open_orders = orders(board)
        if not open_orders:
            return None
        least = min((o.round for o in open_orders if not isinstance(o, Rescore)), default=0)

        def preference(order: Order) -> tuple[bool, bool]:
            return not isinstance(order, Rescore), order.pod != self._pod or order.round > least

        open_orders.sort(key=preference)
        owners = {}
        for order in open_orders:
            owners[order.id] = owner = self._folder.claim_owner(order.id)
            if owner is not None and (owner.slot, owner.job) == (self._owner.slot, self._owner.job):
                return self._took(order)
        for order in open_orders:
            if owners[order.id] is None and self._folder.claim(order.id, self._owner):
                return self._took(order)
        return None

    def _took(self, order: Order) -> Order:
        self._pod = order.pod
        return order

    def execute(self, order: Order) -> Report | None:
        """Have the child execute an order; None if it was stopped instead.

        Raises:
            StorageError: the child could not read or write what it had to: no fault of its pod.
        """
        self._tell(_status(order), force=True)
        try:
            reply = self._converse(order)
        except ChildDied as death:
            self._end_child()
            if self._stopping():
                return None
            log.error("%s: %s", order.id, death)
            return _failed(order, self._owner.slot, str(death), death.kind)
        if "report" in reply:
            return decode(Report, reply["report"])
        if reply.get("kind") in BROKEN or "stopped" in reply:
            # Who knows what a simulator that raised is good for: the next order gets a new one.
            self._end_child()
        if reply.get("kind") == "storage":
            raise StorageError(reply["failure"])
        if reply.get("signalled"):
            self._stop.set()  # Slurm has told the ranks of a pod, and not this process
        if "failure" in reply:
            log.error("%s: %s", order.id, reply["failure"])
            return _failed(order, self._owner.slot, reply["failure"], reply["kind"])
        return None

    def _converse(self, order: Order) -> dict[str, Any]:
        """Send an order and wait for the reply that ends it, looking up at the slot's pace."""
        if self._child is not None and self._child.ended:
            self._end_child()
        if self._child is None:
            self._child = Child(self._folder.path, self._owner.slot, self._config)
        self._child.send(order)
        shown, heard = _status(order), time.monotonic()
        asked_at: float | None = None
        while True:
            reply = self._child.receive(GLANCE_SECONDS)
            if reply is not None and "progress" not in reply:
                return reply
            if reply is not None:
                shown, heard = {**shown, **reply["progress"]}, time.monotonic()
            elif self._is_hung(heard):
                self._child.kill()
                return {"failure": _HUNG.format(self._config.pod.hang_seconds), "kind": "crash"}
            self._tell(shown)  # also while it evaluates: whoever is silent is taken for dead
            if asked_at is None and (self._stop or self._sees_a_stop(order)):
                asked_at = time.monotonic()
                self._child.ask_to_stop()
            if asked_at is not None and time.monotonic() - asked_at > self._pace.grace:
                self._child.kill()

    def _is_hung(self, heard: float) -> bool:
        limit = self._config.pod.hang_seconds
        return limit is not None and time.monotonic() - heard > limit

    def _gives_up(self, report: Report) -> bool:
        """A slot that fails again and again is on a bad node: it must not burn every pod."""
        self._failures = self._failures + 1 if report.failure_kind in BROKEN else 0
        if self._failures <= self._config.cluster.max_restarts:
            return False
        log.error("%d rounds failed in a row here; this slot gives up", self._failures)
        return True

    def _sees_a_stop(self, order: Order) -> bool:
        """Whether an order is to be stopped, as of the last look: thousands of slots share a disk.

        Once the finals have begun, a round that is still being trained counts for nothing.
        """
        now = time.monotonic()
        if now - self._looked < self._pace.look:
            return False
        self._looked = now
        void = not isinstance(order, Rescore) and self._folder.requested("finals") is not None
        return void or self._told_to_stop()

    def _told_to_stop(self) -> bool:
        return self._folder.requested("stop") is not None

    def _told_to_end(self) -> bool:
        return self._told_to_stop() or self._folder.requested("drain") is not None

    def _stopping(self) -> bool:
        return bool(self._stop) or self._told_to_stop()

    def _ending(self) -> bool:
        return bool(self._stop) or self._told_to_end()

    def _tell(self, status: dict[str, Any], *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._told >= self._pace.tell:
            self._told = now
            place = {"job": self._owner.job, "host": self._owner.host, "pid": os.getpid()}
            with contextlib.suppress(StorageError):  # a full disk must not end a round for this
                self._folder.write_slot(self._owner.slot, {**status, **place})

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _status(order: Order) -> dict[str, Any]:
    state = "scoring" if isinstance(order, Rescore) else "training"
    return {
        "state": state, "order": order.id, "pod": order.pod, "round": order.round,
        "algorithm": order.algorithm,
    }  # fmt: skip


def _failed(order: Order, slot: str, why: str, kind: Any) -> Report:
    return Report(
        order.id, order.pod, order.round, order.attempt, slot, failure=why, failure_kind=kind
    )


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.slot RUN``: what a batch script runs."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.slot", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--token", help="the intent that this slot was submitted for")
    parser.add_argument("--slot", help="the slot's name (default: from Slurm's environment)")
    parser.add_argument("--job", help="the job's id (default: from Slurm's environment)")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.parent is not None:
        die_with_parent(options.parent, signal.SIGTERM)
    return exit_code(lambda: _serve(options, stop), log.error)


def _serve(options: argparse.Namespace, stop: StopFlag) -> int:
    folder = RunFolder.open(options.run)
    owner = identity(options.slot, options.job)
    if not admitted(folder, options.token, owner):
        return 0
    log.info("slot %s of job %s on %s", owner.slot, owner.job, owner.host)
    return Slot(folder, owner, stop).run()


if __name__ == "__main__":
    sys.exit(main())

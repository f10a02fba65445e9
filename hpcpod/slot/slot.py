"""The loop of a slot: claim, train, score, report, merge; again."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from hpcpod._process import REQUEUE, StopFlag
from hpcpod.config.placement import scores_beside
from hpcpod.errors import Corrupt, StorageError
from hpcpod.pod.ipc.child import Child
from hpcpod.pod.ipc.messages import (
    BROKEN,
    Ended,
    FailureReply,
    StopReply,
    Work,
    failed,
    whole,
)
from hpcpod.records.records import Birth, Board, Order, Owner, Report, Rescore
from hpcpod.slot.executor import Executor
from hpcpod.slot.preparation import prepare_end
from hpcpod.slot.restarts import OwnRestarts
from hpcpod.slot.stop_requests import StopRequests
from hpcpod.storage.freshness import refresh_requests
from hpcpod.storage.requests import SlotRefused
from hpcpod.storage.restarts import Doing
from hpcpod.storage.retry import with_retries
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import OrderStatus, SlotStatus
from hpcpod.tournament.barrier import goes_on
from hpcpod.tournament.budget import same_work, speculative, taken_up
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, now_of, overdue, read_board
from hpcpod.tournament.order_choice import take
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules

log = logging.getLogger("hpcpod.slot")

IDLE_SECONDS = (0.1, 5.0)
"""Shortest and longest pause between two looks at a board that has nothing to claim."""

GLANCE_SECONDS = 0.1
"""Interval of looks at the stop flag while processes work: a grace period may be short."""


@dataclass(frozen=True)
class Pace:
    """The pace at which a slot looks up from its work, in seconds."""

    look: float
    """Interval of looks into the run folder for a stop request."""
    tell: float
    """Interval of status files, which people watch."""
    grace: float
    """Time from the command to stop to the kill of a child: less than the scheduler gives."""


class Slot:
    """Claim, train, score, report, merge; again.

    Where a round is scored beside training, the trainer goes on while the scorer is at work: with
    another order, or *speculatively* with the birth that the board will order if the pod simply
    continues. A round is a function of its birth, so if just that is ordered, the work counts; its
    part of the run's budget alone may be a guess (``tournament.budget``).
    """

    def __init__(self, folder: RunFolder, owner: Owner, stop: StopFlag) -> None:
        self._folder = folder
        self._owner = owner
        self._config = config = folder.resolved.config
        self._rules = Rules.of_run(folder)
        here = config.cluster.launcher == "local"
        # Seconds: thousands of slots share a disk.
        self._pace = Pace(0.5, 0.5, 15.0) if here else Pace(5.0, 30.0, 60.0)
        self._trainer = self._executor("training")
        self._scorer = self._executor("scoring") if scores_beside(config) else None
        self._restarts = OwnRestarts(folder, owner.slot, config, self._sessions)
        self._executors = [each for each in (self._trainer, self._scorer) if each is not None]
        self._requests = StopRequests(folder, owner.slot, stop, self._pace.look)
        self._speculative: Birth | None = None
        """The birth that the trainer has begun before it is ordered."""
        self._trained: tuple[Birth, Report] | None = None
        """The last work of the trainer: it waits for the scorer, or to be ordered."""
        self._unsaved: Report | None = None
        """The last report of the trainer, while it is not in the run folder yet."""
        self._scoring: Report | None = None
        """The training of the round that the scorer has."""
        self._pod: str | None = None
        self._failures = 0
        self._shown_at = -math.inf
        self._next_look, self._pause = 0.0, IDLE_SECONDS[0]

    def _executor(self, name: Literal["training", "scoring"]) -> Executor:
        start = partial(
            Child, self._folder.path, self._owner.slot, self._config,
            scorer=name == "scoring",
        )  # fmt: skip
        return Executor(name, start, self._config.pod.hang_seconds, self._pace.grace)

    def run(self) -> int:
        """Work until the run ends, a stop is asked for, or this slot keeps failing.

        Raises:
            StorageError: the filesystem refused for longer than ``with_retries`` waits.
        """
        try:
            return self._work()
        except StorageError as error:
            if not self._requests.stopping():
                raise
            log.error("%s; what was not saved is done again", error)
            return self._farewell()
        finally:
            self._restarts.look(*self._doing())
            self._restarts.measure()
            for executor in self._executors:
                executor.close()
            self._restarts.close()
            with contextlib.suppress(StorageError):
                self._folder.slots.drop(self._owner.slot)

    def _work(self) -> int:
        if self._restarts.hopeless:
            log.error(self._restarts.hopeless)
            return 1
        self._obey()
        if not self._requests.asked("stop", "drain"):
            self._trainer.warm_up()  # 3 s, of which torch takes 1.4
        self._tell()  # the others take a slot without a status for dead
        while True:
            self._obey()
            for executor in self._executors:
                if (ended := executor.poll()) is not None:
                    self._take(ended)
            self._pass_on()
            code = self._find_work() if time.monotonic() >= self._next_look else None
            self._save_trained()
            if code is not None:
                return code
            self._tell()
            pipes = [pipe for each in self._executors if (pipe := each.fileno()) is not None]
            select.select(pipes, [], [], GLANCE_SECONDS)

    def _obey(self) -> None:
        """Obey the stop requests, as of the last look."""
        self._requests.look()
        if self._requests.asked("stop"):
            for executor in self._executors:
                executor.stop()
        elif self._requests.asked("discard"):
            for executor in self._executors:
                if isinstance(executor.order, Birth):
                    executor.discard()
            self._speculative = self._trained = None
        elif self._requests.asked("drain"):
            self._drop_speculative()
        if not self._busy() and self._requests.asked("stop", "drain"):
            self._next_look = 0.0

    def _busy(self) -> bool:
        return self._trained is not None or any(each.work is not None for each in self._executors)

    def _take(self, ended: Ended) -> None:
        """Go on from the end of some work."""
        work, reply = ended.work, ended.reply
        order, self._next_look, self._shown_at = work.order, 0.0, -math.inf
        trained = None
        if work.part == "score":
            trained, self._scoring = self._scoring, None
        if isinstance(reply, StopReply):
            if reply.signalled:
                self._requests.signal.set()  # Slurm has signalled the pod's ranks, not this process
            if trained is not None or order == self._speculative:
                self._drop_speculative()
            return
        if isinstance(reply, FailureReply):
            if reply.kind == "engine":  # no order can be done here, and no pod is to blame
                if self._folder.owner.mine:
                    self._folder.requests.publish(SlotRefused(reply.failure))
                self._failures = self._config.cluster.max_restarts + 1  # it gives up at once
                return
            report = failed(ended, self._owner.slot)
        else:
            report = reply.report
            if work.doing == "training":
                self._restarts.scored(report.evaluate_seconds)
        if isinstance(order, Birth) and work.part == "train":  # its score is the scorer's
            self._trained = order, report
            if order != self._speculative:
                self._unsaved = report
        else:
            self._deliver(report if trained is None else whole(trained, report))

    def _pass_on(self) -> None:
        """Deliver a trained round that has failed; hand one that has not to the scorer."""
        if self._trained is None or self._speculative is not None:
            return
        birth, report = self._trained
        if report.failure_kind:
            self._trained = None
            self._deliver(report)
        elif self._requests.asked("stop"):
            self._trained = None
        elif self._scorer is not None and self._scorer.work is None:
            self._trained, self._scoring = None, report
            self._scorer.submit(Work(birth, "score", report.checkpoint))
            self._next_look, self._shown_at = 0.0, -math.inf

    def _save_trained(self) -> None:
        """Make a trained, ordered round durable, so that it is not trained again.

        The processes are at work again by now.
        """
        report, self._unsaved = self._unsaved, None
        if report is None or report.failure_kind:
            return
        try:
            self._folder.checkpoints.save_trained(report)
        except StorageError as error:
            log.warning("%s is not saved until it is scored: %s", report.order, error)

    def _deliver(self, report: Report) -> None:
        """Publish a report; speculative work now counts, or is dropped."""
        try:
            board = with_retries(partial(self._publish, report), self._requests.stopping)
        except Corrupt as error:
            log.error("%s: its round is done again", error)
            self._drop_speculative()
            return
        self._restarts.progress(report.order)
        # A slot that fails again and again is on a bad node: it must not burn every pod.
        failed = report.failure_kind in BROKEN and board.phase == "running"
        self._failures = self._failures + 1 if failed else 0
        begun = self._speculative
        if begun is None:
            return
        pod = board.pods.get(begun.pod)
        ordered = board.phase == "running" and pod is not None and same_work(pod.birth, begun)
        ordered = ordered and begun.pod not in resting_pods(board)
        claim = partial(self._folder.claims.take, begun.id, self._owner)
        if (
            ordered
            and not self._requests.leaving()
            and with_retries(claim, self._requests.stopping)
        ):
            self._speculative, self._pod = None, begun.pod
            self._restarts.begin(begun)
            self._unsaved = None if self._trained is None else self._trained[1]
        else:
            self._drop_speculative()

    def _drop_speculative(self) -> None:
        if self._speculative is not None:
            log.info("%s was begun ahead and is not ordered", self._speculative.id)
            self._speculative = self._trained = None
            self._trainer.discard()

    def _publish(self, report: Report) -> Board:
        if report.checkpoint is not None and not self._folder.checkpoints.holds(report.checkpoint):
            # This machine was suspended for so long that they were taken for leftovers.
            raise Corrupt(f"{report.order}: the blobs of its checkpoint are gone")
        self._folder.reports.publish(report)
        return merge(self._folder, self._rules)

    def _find_work(self) -> int | None:
        """Give idle processes something to do; the exit code once there is nothing any more."""
        hopeless = self._failures > self._config.cluster.max_restarts
        if hopeless and not self._busy():  # else its other process ends what it has in hand
            log.error("no order can be done here; this slot gives up")
            return 1
        if hopeless or self._requests.leaving():
            self._next_look = math.inf
            return None if self._busy() else self._farewell()
        board = with_retries(partial(read_board, self._folder), self._requests.leaving)
        if board.phase == "finished":
            return 0
        found: Order | None = None
        for _ in self._executors:
            order = with_retries(partial(self.claim, board), self._requests.leaving)
            if order is None:
                break
            found = order
            if self._folder.reports.exists(order.id):  # it was killed before its merge
                with_retries(partial(merge, self._folder, self._rules), self._requests.leaving)
                return None
            if board.began is None or board.halted is not None:
                began = partial(merge, self._folder, self._rules, at_work=True)
                with_retries(began, self._requests.leaving)
            self.execute(order)
        if found is not None:
            prepare_end(self._folder, found, board)
        elif with_retries(partial(overdue, self._folder, board), self._requests.leaving):
            with_retries(partial(merge, self._folder, self._rules), self._requests.leaving)
            return None
        if found is None and self._trains_nothing():
            self._speculate(board)
        self._wait(found is not None)
        return None

    def _wait(self, found: bool) -> None:
        """Set when to look at the board again: soon while idle, not at all while all is busy."""
        self._pause = IDLE_SECONDS[0] if found else min(2 * self._pause, IDLE_SECONDS[1])
        self._next_look = time.monotonic() + self._pause if self._trains_nothing() else math.inf

    def _trains_nothing(self) -> bool:
        return self._trainer.work is None and self._trained is None

    def _speculate(self, board: Board) -> None:
        """Begin what the board will order if the pod that is being scored simply continues."""
        if self._scorer is None or self._scoring is None or self._scoring.checkpoint is None:
            return
        birth = self._scorer.order
        if board.phase != "running" or not isinstance(birth, Birth):
            return
        if not goes_on(board, birth):  # its next round waits at a barrier
            return
        self._speculative = speculative(birth, self._scoring.checkpoint, self._config)
        if self._speculative is not None:
            self._trainer.submit(Work(self._speculative, "train", claimed=False))
            self._shown_at = -math.inf

    def _farewell(self) -> int:
        if self._requests.signal:
            refresh_requests(self._folder)  # a slot that comes back has no old request
        # Slurm before 24.05 calls a polite exit in preemption FAILED: the script requeues, at 75.
        return REQUEUE if self._requests.requeue else 0

    def claim(self, board: Board) -> Order | None:
        """Take an open order that an idle process can do, if there is one; see ``take``."""
        open_orders = [order for order in orders(board) if self._can_do(order)]
        order = take(self._folder, self._owner, open_orders, self._pod, board)
        if order is None:
            return None
        self._pod = order.pod
        return taken_up(order, board, self._config, now_of(self._folder, board))

    def _can_do(self, order: Order) -> bool:
        """True if the process that an order is for is idle, and the order not in hand."""
        if isinstance(order, Rescore) and self._scorer is not None:
            return self._scorer.work is None
        held = {each.order.id for each in self._executors if each.order is not None}
        return self._trains_nothing() and order.id not in held

    def execute(self, order: Order) -> None:
        """Hand an order to the process that it is for."""
        self._restarts.begin(order)
        if isinstance(order, Rescore):
            (self._scorer or self._trainer).submit(Work(order))
        else:
            self._trainer.submit(Work(order, "all" if self._scorer is None else "train"))
        self._shown_at = -math.inf

    def _tell(self) -> None:
        """Show the slot's status, at its pace: a silent slot is taken for dead."""
        now = time.monotonic()
        self._restarts.look(*self._doing())
        if now - self._shown_at >= self._pace.tell:
            self._shown_at = now
            with contextlib.suppress(StorageError):  # a full disk must not end a round for this
                self._folder.slots.write(self._owner.slot, self._status())

    def _sessions(self) -> list[int | None]:
        return [each for executor in self._executors for each in executor.sessions]

    def _doing(self) -> tuple[Doing, str]:
        """The activity, and the order in hand; training, where another is scored beside it."""
        for executor in self._executors:
            if executor.work is not None:
                work = executor.work
                return "starting" if executor.silent else work.doing, work.order.id
        return "waiting", ""

    def _status(self) -> SlotStatus:
        owner = self._owner
        idle = SlotStatus("idle", job=owner.job, host=owner.host, pid=os.getpid())
        busy = [each for each in self._executors if each.order is not None]
        if not busy:
            return idle
        status, *beside = [self._shown(executor) for executor in busy]
        ahead = True if busy[0].order == self._speculative else None
        return replace(idle, **vars(status), scoring=beside[0] if beside else None, ahead=ahead)

    def _shown(self, executor: Executor) -> OrderStatus:
        order = executor.order
        assert order is not None
        scoring = isinstance(order, Rescore) or executor is self._scorer
        shown = OrderStatus(
            "scoring" if scoring else "training", order.id, order.pod, order.round, order.algorithm
        )
        return replace(shown, **vars(executor.progress)) if executor.progress else shown

"""The slot's loop: claim, train, score, report, merge; again."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from hpcpod._process import REQUEUE, StopFlag
from hpcpod.config.placement import scores_beside
from hpcpod.errors import Corrupt, StorageError
from hpcpod.pod.ipc.child import Child
from hpcpod.pod.ipc.messages import BROKEN, Work, failed, whole
from hpcpod.records.records import Birth, Board, Order, Owner, Report, Rescore, decode
from hpcpod.slot.child_process import Lane
from hpcpod.slot.restarts import Lives
from hpcpod.storage.freshness import listen_again
from hpcpod.storage.requests import REFUSED
from hpcpod.storage.retry import patiently
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.budget import ahead, same_work, taken_up
from hpcpod.tournament.claims import take
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, now_of, read_board
from hpcpod.tournament.priorities import asleep
from hpcpod.tournament.rules import Rules

log = logging.getLogger("hpcpod.slot")

Request = Literal["stop", "leave", "drain", "finals"]
"""What a slot is asked for: to stop, since the run ends; to save what it does and leave; to leave
after the round in hand; and to drop rounds, which count for nothing any more."""

IDLE_SECONDS = (0.1, 5.0)
"""Shortest and longest pause between two looks at a board that has nothing to claim."""

GLANCE_SECONDS = 0.1
"""Between two glances at the stop flag while processes work: a grace period may be short."""


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
    """Claim, train, score, report, merge; again.

    Where a round is scored beside training, the trainer goes on while the scorer is at work:
    with another order, or *ahead*, with the birth that the board will order if the pod simply
    continues. A round is a function of its birth, so if just that is ordered, the work counts; its
    part of the run's budget alone may be a guess (``tournament.progress``).
    """

    def __init__(self, folder: RunFolder, owner: Owner, stop: StopFlag) -> None:
        self._folder = folder
        self._owner = owner
        self._stop = stop
        self._config = config = folder.resolved.config
        self._rules = Rules.of_run(folder)
        here = config.cluster.launcher == "local"
        self._pace = Pace(0.5, 0.5, 15.0) if here else Pace(5.0, 30.0, 60.0)
        self._trainer = self._lane("training")
        self._scorer = self._lane("scoring") if scores_beside(config) else None
        self._lives = Lives(folder, owner.slot, config)
        self._lanes = [lane for lane in (self._trainer, self._scorer) if lane is not None]
        self._ahead: Birth | None = None
        """What the trainer has begun before it is ordered."""
        self._done: tuple[Birth, Report] | None = None
        """What the trainer has ended with: it waits for the scorer, or to be ordered."""
        self._unsaved: Report | None = None
        """What the trainer has ended with and is not in the run folder yet."""
        self._scored: Report | None = None
        """What the training came to of the round that the scorer has."""
        self._pod: str | None = None
        self._requests: set[Request] = set()
        self._failures = 0
        self._told = self._looked = -math.inf
        self._next_look, self._pause = 0.0, IDLE_SECONDS[0]

    def _lane(self, name: Literal["training", "scoring"]) -> Lane:
        start = partial(
            Child, self._folder.path, self._owner.slot, self._config,
            scorer=name == "scoring",
        )  # fmt: skip
        return Lane(name, start, self._config.pod.hang_seconds, self._pace.grace)

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
            for lane in self._lanes:
                lane.close()
            self._lives.save()
            with contextlib.suppress(StorageError):
                self._folder.slots.drop(self._owner.slot)

    def _work(self) -> int:
        if self._lives.hopeless:
            log.error(self._lives.hopeless)
            return 1
        self._heed()
        if not self._hurries() and "drain" not in self._requests:
            self._trainer.warm_up()
        self._tell()  # whoever claims must have shown life
        while True:
            self._heed()
            for lane in self._lanes:
                if (ended := lane.look()) is not None:
                    self._take(*ended)
            self._pass_on()
            code = self._find_work() if time.monotonic() >= self._next_look else None
            self._save_trained()
            if code is not None:
                return code
            self._tell()
            pipes = [pipe for lane in self._lanes if (pipe := lane.fileno()) is not None]
            select.select(pipes, [], [], GLANCE_SECONDS)

    def _heed(self) -> None:
        """Look for requests, but not too often: thousands of slots share a disk. Obey them.

        Once the finals have begun, a round that is still being trained or scored counts for
        nothing.
        """
        now = time.monotonic()
        if now - self._looked >= self._pace.look:
            self._looked = now
            self._asked()
        if self._hurries():
            for lane in self._lanes:
                lane.stop()
        elif "finals" in self._requests:
            for lane in self._lanes:
                if isinstance(lane.order, Birth):
                    lane.give_up()
            self._ahead = self._done = None
        elif "drain" in self._requests:
            self._drop_ahead()
        if not self._busy() and (self._hurries() or "drain" in self._requests):
            self._next_look = 0.0

    def _read_requests(self) -> set[Request]:
        """What the run folder asks for now."""
        ended: tuple[Request, ...] = ("stop", "finals")
        found = {name for name in ended if self._folder.requests.read(name) is not None}
        drain = self._folder.requests.read("drain")
        retiring = self._folder.slots.retiring(self._owner.slot)
        if retiring == "now" or (drain is not None and drain.get("now")):
            found.add("leave")
        elif retiring or drain is not None:
            found.add("drain")
        return found

    def _hurries(self) -> bool:
        """Whether it saves what it does and ends, as of the last look."""
        return bool(self._stop) or bool(self._requests & {"stop", "leave"})

    def _busy(self) -> bool:
        return self._done is not None or any(lane.work is not None for lane in self._lanes)

    def _take(self, work: Work, reply: dict[str, Any]) -> None:
        """Go on from what a process has ended with."""
        order, self._next_look, self._told = work.order, 0.0, -math.inf
        scored = None
        if work.part == "score":
            scored, self._scored = self._scored, None
        if reply.get("kind") == "engine":  # no order can be done here, and no pod is to blame
            if self._folder.owner.mine:
                self._folder.requests.publish(REFUSED, {"reason": reply["failure"]})
            self._failures = self._config.cluster.max_restarts + 1
            return
        if "failure" in reply:
            report = failed(work, self._owner.slot, reply)
        elif "report" in reply:
            report = decode(Report, reply["report"])
        else:
            if reply.get("signalled"):
                self._stop.set()  # Slurm has told the ranks of a pod, and not this process
            if scored is not None or order == self._ahead:
                self._drop_ahead()
            return
        if isinstance(order, Birth) and work.part == "train":
            self._done = order, report
            if order != self._ahead:
                self._unsaved = report
        else:
            self._deliver(report if scored is None else whole(scored, report))

    def _pass_on(self) -> None:
        """Deliver what the trainer has ended with, or hand it to the scorer."""
        if self._done is None or self._ahead is not None:
            return
        birth, report = self._done
        if report.failure_kind:
            self._done = None
            self._deliver(report)
        elif self._hurries():
            self._done = None
        elif self._scorer is not None and self._scorer.work is None:
            self._done, self._scored = None, report
            self._scorer.give(Work(birth, "score", report.checkpoint))
            self._next_look, self._told = 0.0, -math.inf

    def _save_trained(self) -> None:
        """What has been trained, and is ordered, is not trained again: the processes are at work
        already when this is made durable."""
        report, self._unsaved = self._unsaved, None
        if report is None or report.failure_kind:
            return
        try:
            self._folder.save_trained(report)
        except StorageError as error:
            log.warning("%s is not saved until it is scored: %s", report.order, error)

    def _deliver(self, report: Report) -> None:
        """Publish a report; what was begun ahead now counts, or is dropped."""
        try:
            board = patiently(partial(self._publish, report), self._stopping)
        except Corrupt as error:
            log.error("%s: its round is done again", error)
            self._drop_ahead()
            return
        self._lives.progress()
        # A slot that fails again and again is on a bad node: it must not burn every pod.
        failed = report.failure_kind in BROKEN and board.phase == "running"
        self._failures = self._failures + 1 if failed else 0
        begun = self._ahead
        if begun is None:
            return
        pod = board.pods.get(begun.pod)
        ordered = board.phase == "running" and pod is not None and same_work(pod.birth, begun)
        ordered = ordered and begun.pod not in asleep(board)
        claim = partial(self._folder.claim, begun.id, self._owner)
        if ordered and not self._ending() and patiently(claim, self._stopping):
            self._ahead, self._pod = None, begun.pod
            self._lives.begin(begun)
            self._unsaved = None if self._done is None else self._done[1]
        else:
            self._drop_ahead()

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            log.info("%s was begun ahead and is not ordered", self._ahead.id)
            self._ahead = self._done = None
            self._trainer.give_up()

    def _publish(self, report: Report) -> Board:
        if report.checkpoint is not None and not self._folder.holds(report.checkpoint):
            # This machine was suspended for so long that they were taken for dust.
            raise Corrupt(f"{report.order}: the blobs of its checkpoint are gone")
        self._folder.publish_report(report)
        return merge(self._folder, self._rules)

    def _find_work(self) -> int | None:
        """Give idle processes something to do; the exit code once there is nothing any more."""
        if self._failures > self._config.cluster.max_restarts:
            log.error("no order can be done here; this slot gives up")
            return 1
        if self._ending():
            self._next_look = math.inf
            return None if self._busy() else self._farewell()
        board = patiently(partial(read_board, self._folder), self._ending)
        if board.phase == "finished":
            return 0
        found = False
        for _ in self._lanes:
            order = patiently(partial(self.claim, board), self._ending)
            if order is None:
                break
            found = True
            if self._folder.has_report(order.id):  # a former life ended before its merge
                patiently(partial(merge, self._folder, self._rules), self._ending)
                return None
            if board.began is None:
                patiently(partial(merge, self._folder, self._rules, at_work=True), self._ending)
            self.execute(order)
        if not found and self._trains_nothing():
            self._go_ahead(board)
        self._wait(found)
        return None

    def _wait(self, found: bool) -> None:
        """Set when to look at the board again: soon while idle, not at all while all is busy."""
        self._pause = IDLE_SECONDS[0] if found else min(2 * self._pause, IDLE_SECONDS[1])
        self._next_look = time.monotonic() + self._pause if self._trains_nothing() else math.inf

    def _trains_nothing(self) -> bool:
        return self._trainer.work is None and self._done is None

    def _go_ahead(self, board: Board) -> None:
        """Begin what the board will order if the pod that is being scored simply continues."""
        if self._scorer is None or self._scored is None or self._scored.checkpoint is None:
            return
        birth = self._scorer.order
        if board.phase != "running" or not isinstance(birth, Birth):
            return
        self._ahead = ahead(birth, self._scored.checkpoint, self._config)
        if self._ahead is not None:
            self._trainer.give(Work(self._ahead, "train", claimed=False))
            self._told = -math.inf

    def _farewell(self) -> int:
        if self._stop:
            listen_again(self._folder)  # who comes back is not told twice
        return REQUEUE if self._stop and not self._told_to_end() else 0

    def claim(self, board: Board) -> Order | None:
        """Take an open order that an idle process can do, if there is one; see ``take``."""
        open_orders = [order for order in orders(board) if self._can_do(order)]
        order = take(self._folder, self._owner, open_orders, self._pod, asleep(board))
        if order is None:
            return None
        self._pod = order.pod
        return taken_up(order, board, self._config, now_of(self._folder, board))

    def _can_do(self, order: Order) -> bool:
        """Whether the process that an order is for is idle, and the order not in hand."""
        if isinstance(order, Rescore) and self._scorer is not None:
            return self._scorer.work is None
        held = {lane.order.id for lane in self._lanes if lane.order is not None}
        return self._trains_nothing() and order.id not in held

    def execute(self, order: Order) -> None:
        """Hand an order to the process that it is for."""
        self._lives.begin(order)
        if isinstance(order, Rescore):
            (self._scorer or self._trainer).give(Work(order))
        else:
            self._trainer.give(Work(order, "all" if self._scorer is None else "train"))
        self._told = -math.inf

    def _told_to_end(self) -> bool:
        return bool(self._asked() & {"stop", "leave", "drain"})

    def _stopping(self) -> bool:
        return bool(self._stop) or bool(self._asked() & {"stop", "leave"})

    def _asked(self) -> set[Request]:
        """What the run folder asks for now; while it can't be read, what it has asked for."""
        with contextlib.suppress(StorageError):
            self._requests = self._read_requests()
        return self._requests

    def _ending(self) -> bool:
        return bool(self._stop) or self._told_to_end()

    def _tell(self) -> None:
        """Show what goes on, at the slot's pace: whoever is silent is taken for dead."""
        now = time.monotonic()
        self._lives.look()
        if now - self._told >= self._pace.tell:
            self._told = now
            place = {"job": self._owner.job, "host": self._owner.host, "pid": os.getpid()}
            with contextlib.suppress(StorageError):  # a full disk must not end a round for this
                self._folder.slots.write(self._owner.slot, {**self._status(), **place})

    def _status(self) -> dict[str, Any]:
        busy = [lane for lane in self._lanes if lane.order is not None]
        if not busy:
            return {"state": "idle"}
        status, *beside = [self._shown(lane) for lane in busy]
        if beside:
            status["scoring"] = beside[0]
        if busy[0].order == self._ahead:
            status["ahead"] = True
        return status

    def _shown(self, lane: Lane) -> dict[str, Any]:
        order = lane.order
        assert order is not None
        scoring = isinstance(order, Rescore) or lane is self._scorer
        return {
            "state": "scoring" if scoring else "training", "order": order.id, "pod": order.pod,
            "round": order.round, "algorithm": order.algorithm, **lane.progress,
        }  # fmt: skip

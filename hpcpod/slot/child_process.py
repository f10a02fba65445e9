"""One process of a slot and the work in its hands: followed, stopped, given up, tried again."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from hpcpod.errors import StorageError
from hpcpod.pod.ipc.child import Child, ChildDied
from hpcpod.pod.ipc.messages import BROKEN, Work
from hpcpod.records.records import Order
from hpcpod.storage.retry import PAUSES

log = logging.getLogger(__name__)

_HUNG = "the {} process gave no sign of life for {:g} s (pod.hang_seconds): killed"

Reply = dict[str, Any]

_STOPPED: Reply = {"stopped": True}


class Lane:
    """A process that is started when there is work, and again after it has died."""

    def __init__(
        self, name: str, start: Callable[[], Child], hang_seconds: float | None, grace: float
    ) -> None:
        """Args:
        name: ``training`` or ``scoring``, for messages.
        start: starts the process.
        hang_seconds: of silence after which it is killed; None waits for ever.
        grace: seconds that it may take to stop before it is killed.
        """
        self._name = name
        self._start = start
        self._hang_seconds = hang_seconds
        self._grace = grace
        self._child: Child | None = None
        self._unused = True
        """The process has had no work yet."""
        self._heard = self._given = 0.0
        self._asked: float | None = None
        self._tries = 0
        self._again: float | None = None
        self.work: Work | None = None
        """What is in its hands."""
        self.void = False
        """What is in its hands counts for nothing any more."""
        self.progress: dict[str, Any] = {}
        """What it told last of where its work stands."""

    @property
    def order(self) -> Order | None:
        """The order in its hands."""
        return None if self.work is None else self.work.order

    def warm_up(self) -> None:
        """Start the process before there is work: what it imports takes seconds."""
        if self._child is None:
            self._child, self._unused = self._start(), True

    def give(self, work: Work) -> None:
        """Hand it some work; it must have none."""
        self.work, self.void, self.progress = work, False, {}
        self._asked, self._tries, self._again = None, 0, None
        self._given = time.monotonic()
        work.log("begins")
        self._send()

    def look(self) -> tuple[Work, Reply] | None:
        """Its work and the reply that ends it, once: a report, a failure, or that it was stopped.

        Work that the filesystem refused is tried again after a pause, as by ``patiently``.

        Raises:
            StorageError: it refused to the last.
        """
        work = self.work
        if work is None:
            return None
        reply = self._reply() if self._again is None else self._wait_for_the_disk()
        if reply is not None and reply.get("kind") == "storage" and not self.void:
            reply = self._pause(reply["failure"])
        if reply is None:
            return None
        self.work = None
        work.log("ends")
        if reply.get("kind") in BROKEN or ("stopped" in reply and not self.void):
            # Who knows what a simulator that raised is good for: the next order gets a new one.
            self.close()
        if self.void:
            return work, _STOPPED
        if "failure" in reply:
            log.error("%s: %s", work.order.id, reply["failure"])
            reply = {**reply, "seconds": time.monotonic() - self._given}
        return work, reply

    def _reply(self) -> Reply | None:
        try:
            return self._receive()
        except ChildDied as death:
            stopped = self._asked is not None
            return _STOPPED if stopped else {"failure": str(death), "kind": death.kind}

    def _receive(self) -> Reply | None:
        """The next reply that is no progress, if it is there."""
        assert self._child is not None
        while (reply := self._child.receive(0.0)) is not None:
            self._heard = time.monotonic()
            if "progress" not in reply:
                return reply
            self.progress = {**self.progress, **reply["progress"]}
        silence = time.monotonic() - self._heard
        if self._hang_seconds is not None and silence > self._hang_seconds:
            self._child.kill()
            failure = _HUNG.format(self._name, self._hang_seconds)
            return {"failure": failure, "kind": "crash"}
        if self._asked is not None and time.monotonic() - self._asked > self._grace:
            self._child.kill()
        return None

    def stop(self) -> None:
        """Ask it to save what it does and to end; it is killed if that takes too long."""
        self._ask(Child.ask_to_stop)

    def give_up(self) -> None:
        """What it does counts for nothing: it is to drop that, and to wait for other work."""
        if not self.void:
            self.void = True
            self._ask(Child.ask_to_give_up)

    def _ask(self, how: Callable[[Child], None]) -> None:
        if self.work is not None and self._asked is None:
            self._asked = time.monotonic()
            if self._child is not None:
                how(self._child)

    def _send(self) -> None:
        assert self.work is not None
        if self._child is not None and self._child.ended:
            self.close()
        self.warm_up()
        assert self._child is not None
        self._heard, self._unused = time.monotonic(), False
        with contextlib.suppress(ChildDied):  # the next look says so
            self._child.send(self.work)

    def _pause(self, why: str) -> Reply | None:
        """Have the work done again after a while; nobody can wait who was asked to stop."""
        if self._asked is not None:
            log.error("%s; what was not saved is done again", why)
            return _STOPPED
        if self._tries == len(PAUSES):
            raise StorageError(why)
        pause = PAUSES[self._tries]
        log.warning("%s; trying again in %g s", why, pause)
        self._tries, self._again = self._tries + 1, time.monotonic() + pause
        return None

    def _wait_for_the_disk(self) -> Reply | None:
        assert self._again is not None
        if self._asked is not None:
            return _STOPPED
        if time.monotonic() >= self._again:
            self._again = None
            self._send()
        return None

    def fileno(self) -> int | None:
        """What becomes readable with a reply; None while there is nothing to wait for."""
        working = self._child is not None and self.work is not None and self._again is None
        return self._child.fileno() if working and self._child is not None else None

    def close(self) -> None:
        """End the process, if there is one, and wait until it is gone.

        At once, if it is at work, or has never been: it may import for seconds yet.
        """
        if self._child is not None:
            if self.work is not None or self._unused:
                self._child.kill()
            self._child.close()
            self._child = None

"""The executor: one child process of a slot and its work, followed, stopped and tried again."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

from hpcpod.errors import StorageError
from hpcpod.pod.ipc.child import Child, ChildDied
from hpcpod.pod.ipc.messages import (
    BROKEN,
    Command,
    Ended,
    FailureReply,
    LastReply,
    Progress,
    ProgressReply,
    StopReply,
    Work,
)
from hpcpod.records.records import Order
from hpcpod.storage.retry import PAUSES

log = logging.getLogger(__name__)

_HUNG = "the {} process gave no sign of life for {:g} s (pod.hang_seconds): killed"


class Executor:
    """A child process that is started when there is work, and again after it has died."""

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
        self.silent = True
        """The process has not answered yet: it imports."""
        self._heard = self._given = 0.0
        self._commanded: float | None = None
        self._tries = 0
        self._again: float | None = None
        self.work: Work | None = None
        """The work that it has; None while it is idle."""
        self.discarded = False
        """The work that it has counts for nothing any more."""
        self.progress: Progress | None = None
        """The last progress of its work."""

    @property
    def order(self) -> Order | None:
        """The order of its work."""
        return None if self.work is None else self.work.order

    @property
    def sessions(self) -> tuple[int | None, ...]:
        """The session of its process, if it has one; see ``Child.session``."""
        return () if self._child is None else (self._child.session,)

    def warm_up(self) -> None:
        """Start the process before there is work: what it imports takes seconds."""
        if self._child is None:
            self._child, self._unused, self.silent = self._start(), True, True

    def submit(self, work: Work) -> None:
        """Give it some work; it must be idle."""
        self.work, self.discarded, self.progress = work, False, None
        self._commanded, self._tries, self._again = None, 0, None
        self._given = time.monotonic()
        work.log("begins")  # hpcpod logs finds a pod's lines by these
        self._send()

    def poll(self) -> Ended | None:
        """Its work and the reply that ends it, once; None while it goes on, and while it is idle.

        Work that the filesystem refused is tried again after a pause, as by ``with_retries``.

        Raises:
            StorageError: it refused to the last.
        """
        work = self.work
        if work is None:
            return None
        reply = self._reply() if self._again is None else self._wait_for_the_disk()
        kind = reply.kind if isinstance(reply, FailureReply) else None
        if isinstance(reply, FailureReply) and kind == "storage" and not self.discarded:
            reply = self._pause(reply.failure)
        if reply is None:
            return None
        self.work = None
        work.log("ends")
        if kind in BROKEN or (isinstance(reply, StopReply) and not self.discarded):
            # A simulator that raised may be good for nothing: the next order gets a new process.
            self.close()
        if self.discarded:
            reply = StopReply()
        elif isinstance(reply, FailureReply):
            log.error("%s: %s", work.order.id, reply.failure)
        return Ended(work, reply, time.monotonic() - self._given)

    def _reply(self) -> LastReply | None:
        try:
            return self._receive()
        except ChildDied as death:
            stopped = self._commanded is not None
            return StopReply() if stopped else FailureReply(str(death), death.kind)

    def _receive(self) -> LastReply | None:
        """The last reply to the work, if it is there."""
        assert self._child is not None
        while (reply := self._child.receive(0.0)) is not None:
            self._heard, self.silent = time.monotonic(), False
            if not isinstance(reply, ProgressReply):
                return reply
            self.progress = reply.progress or self.progress
        silence = time.monotonic() - self._heard
        if self._hang_seconds is not None and silence > self._hang_seconds:
            self._child.kill()
            return FailureReply(_HUNG.format(self._name, self._hang_seconds), "crash")
        if self._commanded is not None and time.monotonic() - self._commanded > self._grace:
            self._child.kill()
        return None

    def stop(self) -> None:
        """Have it save its work and end; it is killed if that takes too long."""
        self._command("stop")

    def discard(self) -> None:
        """Have it drop its work, which counts for nothing any more, and wait for other work."""
        if not self.discarded:
            self.discarded = True
            self._command("discard")

    def _command(self, command: Command) -> None:
        if self.work is not None and self._commanded is None:
            self._commanded = time.monotonic()
            if self._child is not None:
                self._child.command(command)

    def _send(self) -> None:
        assert self.work is not None
        if self._child is not None and self._child.ended:  # it may be killed while idle
            self.close()
        self.warm_up()
        assert self._child is not None
        self._heard, self._unused = time.monotonic(), False
        with contextlib.suppress(ChildDied):  # the next poll says so
            self._child.send(self.work)

    def _pause(self, why: str) -> StopReply | None:
        """Have the work done again after a while; a process that has to stop can't wait."""
        if self._commanded is not None:
            log.error("%s; what was not saved is done again", why)
            return StopReply()
        if self._tries == len(PAUSES):  # after an hour
            raise StorageError(why)
        pause = PAUSES[self._tries]
        log.warning("%s; trying again in %g s", why, pause)
        self._tries, self._again = self._tries + 1, time.monotonic() + pause
        return None

    def _wait_for_the_disk(self) -> StopReply | None:
        assert self._again is not None
        if self._commanded is not None:
            return StopReply()
        if time.monotonic() >= self._again:
            self._again = None
            self._send()
        return None

    def fileno(self) -> int | None:
        """The pipe that becomes readable with a reply; None while there is nothing to wait for."""
        working = self._child is not None and self.work is not None and self._again is None
        return self._child.fileno() if working and self._child is not None else None

    def close(self) -> None:
        """End the process, if there is one, and wait until it is gone.

        A process that is at work, or has never been, is killed: it may import for seconds yet.
        """
        if self._child is not None:
            if self.work is not None or self._unused:
                self._child.kill()
            self._child.close()
            self._child = None

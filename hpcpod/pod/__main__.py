"""The child process of a slot: orders come in on standard input, replies leave on its output.

It is a process of its own so that running out of memory or a crash inside a simulator ends
the round and not the slot. What it prints, and its errors, go to the slot's log.

The lines are those of ``pod.ipc.messages``. Of several ranks all get the orders, and the first one
replies.

With ``--scorer`` it is the process that scores beside training: it leaves the cores to that.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from hpcpod import plugins
from hpcpod._process import REQUEUE, StopFlag, die_with_parent, end_group_with
from hpcpod.errors import (
    Corrupt,
    Diverged,
    EngineDiffers,
    EnvFailed,
    HpcpodError,
    StorageError,
    in_words,
    out_of_memory,
    raised_at,
)
from hpcpod.pod.ipc.inbox import Inbox
from hpcpod.pod.ipc.messages import (
    BROKEN,
    FailureKind,
    FailureReply,
    LastReply,
    Progress,
    ProgressReply,
    Reply,
    ReportReply,
    StopReply,
    Work,
    reply_line,
)
from hpcpod.pod.ranks.rank import Rank, RankLost, rank_of
from hpcpod.pod.watch import ProgramFailed, Stopped, Watch
from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore
from hpcpod.storage.layout import log_name
from hpcpod.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from hpcpod.pod.pod import Pod

LONGEST_REASON = 400  # The remedy for another engine was cut off once.
"""Letters of a failure's reason on the board: two engines that differ, and what to do."""

BEAT_SECONDS = 1.0
"""Interval between two heartbeats while there is no progress, as in an evaluation."""

NICE = 5
"""Niceness of a scorer: a quarter of a core that its trainer wants, too. With more, it would get
nothing where strangers are busy, and training waits for a score that is a whole round late."""

# A group may share the run folder: no link in it leads out of it.
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

ORPHAN_SECONDS = 15.0
"""Seconds that a rank may go on once its standard input is closed."""


class Executes(Protocol):
    """What executes orders: a pod of ours, or a program of the user's; see ``Pod``."""

    def execute(self, order: Order, slot: str, watch: Watch) -> Report:
        """Do all that an order asks for."""
        ...

    def train(self, birth: Birth, slot: str, watch: Watch) -> Report:
        """Train the round of a birth, without its panel."""
        ...

    def score(self, birth: Birth, checkpoint: Checkpoint, slot: str, watch: Watch) -> Report:
        """Score the panel of a birth's round."""
        ...

    def close_loggers(self) -> None:
        """Have loggers write what they have got."""
        ...


def main(prepared: Callable[[RunFolder], Executes] | None = None) -> int:
    """Serve orders until there are no more, or a stop is asked for.

    Args:
        prepared: makes what executes them; None: a pod, by ``prepare``.
    """
    parser = argparse.ArgumentParser(prog="python -m hpcpod.pod", description=__doc__)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--slot", required=True, help="the slot's name")
    parser.add_argument("--parent", type=int, help="process id of the slot")
    parser.add_argument("--meeting", help="where the ranks of a pod find each other")
    parser.add_argument("--scorer", action="store_true", help="leave the cores to the trainer")
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))  # before torch: without a handler they kill
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a simulator prints is no reply
    if options.parent is not None:
        end_group_with(replies)
        die_with_parent(options.parent)
    elif options.meeting is None:  # between the slot and this stand srun and a container's runner
        _end_with_orders()
    if options.scorer:
        give_way()
    folder = RunFolder.open(options.run)
    if options.meeting is None:
        writing = os.fdopen(replies, "w", buffering=1)
        server = Server(folder, options.slot, stop, writing, scorer=options.scorer)
        server.prepared = prepared
        server.serve()
        return REQUEUE if stop else 0
    return _serve_as_rank(folder, options, stop, replies)


def _serve_as_rank(
    folder: RunFolder, options: argparse.Namespace, stop: StopFlag, replies: int
) -> int:
    rank = rank_of(os.environ)
    _have_a_log(folder.path / "logs" / log_name(options.slot, rank.number))
    logging.basicConfig(
        level=logging.INFO, force=True,
        format=f"%(asctime)s rank {rank.number} %(levelname)s %(message)s",
    )  # fmt: skip
    if rank.started_by in ("srun", "mpirun"):
        _end_with_orders()
    first = rank.number == 0
    writing = os.fdopen(replies if first else os.open(os.devnull, os.O_WRONLY), "w", buffering=1)
    server = Server(folder, options.slot, stop, writing, rank, options.meeting)
    lost = server.serve()
    # Others may wait for it in vain, and a library's farewell for them: no clean-up from here on.
    sys.stderr.flush()
    os._exit(1 if lost else REQUEUE if stop else 0)


def _end_with_orders() -> None:
    """End when standard input is closed: what has started this process may be killed, and does
    not take it along then."""
    with contextlib.suppress(PermissionError):  # it leads a group of its own already
        os.setpgid(0, 0)
    end_group_with(sys.stdin.fileno(), ORPHAN_SECONDS, or_with_this=True)


def _have_a_log(path: Path) -> None:
    """Send all that this process prints from here on to a file of its own, native code included.

    Where there can be none it stays with the slot's, between the lines of other ranks.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        log = os.open(path, _APPENDING, 0o666)
        for standard in (sys.stdout, sys.stderr):
            os.dup2(log, standard.fileno())
        os.close(log)


class Server:
    """Executes orders, one after another."""

    def __init__(
        self,
        folder: RunFolder,
        slot: str,
        stop: StopFlag,
        replies: TextIO,
        rank: Rank | None = None,
        meeting: str = "",
        *,
        scorer: bool = False,
    ) -> None:
        """``rank`` is one of several, which meet by the name ``meeting``."""
        self._folder, self._slot, self._stop = folder, slot, stop
        self._replies, self._rank, self._meeting = replies, rank, meeting
        self._scorer = scorer
        self._inbox = Inbox()
        self.prepared: Callable[[RunFolder], Executes] | None = None
        """Makes what executes orders; None: a pod."""
        self._prepared: Executes | Exception | None = None
        """The pod that executes orders, or the reason why there is none."""

    def serve(self) -> bool:
        """Execute orders until there are no more or a stop is asked for.

        Returns:
            Whether this process lost the others that train the pod with it.
        """
        self._prepare()  # before there is an order: it takes seconds
        while not self._stop and (work := self._inbox.next()) is not None:
            if self._rank is not None:  # else the slot says so, in the same file
                work.log("begins")
            try:
                self._reply(self._execute(self._ready(), work))
            except Exception as error:
                said = isinstance(error, (StorageError, ProgramFailed))
                if not said or isinstance(error, Corrupt):
                    traceback.print_exc()
                self._reply(FailureReply(_sentence(error), _kind(error)))
                if self._rank is not None and not _goes_on(error):
                    return True
            finally:
                if self._rank is not None:
                    work.log("ends")
        if self._prepared is not None and not isinstance(self._prepared, Exception):
            self._prepared.close_loggers()
        if self._rank is not None and self._rank.number > 0:
            # MPI ends all ranks when one has left, and the first one may still be at work.
            self._inbox.wait_for_end()
        return False

    def _prepare(self) -> None:
        try:
            if self.prepared is not None:
                self._prepared = self.prepared(self._folder)
            else:
                self._prepared = prepare(
                    self._folder, self._rank, self._meeting, scorer=self._scorer
                )
        except Exception as error:  # the first order's reply says it
            self._prepared = error

    def _ready(self) -> Executes:
        if self._prepared is None:
            self._prepare()
        prepared = self._prepared
        assert prepared is not None
        if isinstance(prepared, Exception):
            self._prepared = None  # the next order tries again
            raise prepared
        return prepared

    def _reply(self, reply: Reply) -> None:
        self._replies.write(reply_line(reply))

    def _execute(self, pod: Executes, work: Work) -> LastReply:
        """Do some work; return the reply that ends it."""
        order, watch = work.order, self._watch(work)
        try:
            if isinstance(order, Rescore) or work.part == "all":
                report = pod.execute(order, self._slot, watch)
            elif work.checkpoint is None:
                report = pod.train(order, self._slot, watch)
            else:
                report = pod.score(order, work.checkpoint, self._slot, watch)
        except Stopped:
            # Slurm signals the ranks of a pod, and not always the slot.
            return StopReply(signalled=self._rank is not None and bool(self._stop))
        return ReportReply(report)

    def _watch(self, work: Work) -> Watch:
        """The line by which the slot follows a piece of work."""
        inbox, beaten = self._inbox, time.monotonic()

        def should_stop() -> bool:
            nonlocal beaten
            if time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                self._reply(ProgressReply())  # a heartbeat: pod.hang_seconds count silence
            inbox.look()
            return bool(self._stop) or inbox.stop or inbox.discard

        def tell(progress: Progress) -> None:
            self._reply(ProgressReply(progress))

        def may_save() -> bool:
            if inbox.discard:
                return False
            owner = None if work.claimed else self._folder.claims.owner(work.order.id)
            return work.claimed or (owner is not None and owner.slot == self._slot)

        return Watch(should_stop, tell, may_save, lambda: inbox.discard)


def prepare(
    folder: RunFolder, rank: Rank | None = None, meeting: str = "", *, scorer: bool = False
) -> Pod:
    """Import what a pod needs, the environment's own module first, and meet the other ranks."""
    resolved = folder.resolved
    folder.owner.require_code(resolved.own_code(), "train")
    if resolved.config.env.python is None:
        plugins.load_early(resolved.config.env.id)  # a simulator that must come before torch
    plugins.import_torch()

    from hpcpod.envs.threads import env_threads, set_env_threads
    from hpcpod.pod.numerics import set_numerics
    from hpcpod.pod.pod import Pod
    from hpcpod.pod.ranks.communicator import ALONE
    from hpcpod.pod.ranks.group import join_run

    set_numerics(resolved.config)
    if scorer:  # as many as the trainer's would wait for those, and they for them
        set_env_threads(max(1, env_threads() - 1))
    group = ALONE if rank is None else join_run(rank, folder, resolved.config, meeting)
    return Pod(folder, resolved.config, resolved.algorithms, group)


def give_way() -> None:
    """Leave the cores to other processes that want them."""
    os.nice(NICE)
    # Where each session is scheduled as a group, niceness within it says nothing to others.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICE))


def _goes_on(error: Exception) -> bool:
    """True if all ranks have met this error, and wait for what comes next. If not, some may be in
    an exchange already: this one leaves, and they notice.
    """
    from hpcpod.pod.ranks.consensus import AGREED

    return AGREED in vars(error) and _kind(error) not in BROKEN


def _kind(error: Exception) -> FailureKind:
    """The kind of failure, by which the slot decides what follows."""
    if isinstance(error, ProgramFailed):
        return error.kind
    kinds: dict[type[Exception], FailureKind] = {
        Corrupt: "corrupt", StorageError: "storage", Diverged: "diverged",
        EngineDiffers: "engine",
    }  # fmt: skip
    named = next((kind for cls, kind in kinds.items() if isinstance(error, cls)), None)
    # What a machine or another process failed may go well elsewhere.
    elsewhere = isinstance(error, (OSError, EnvFailed, RankLost))
    return named or ("memory" if out_of_memory(error) else "crash" if elsewhere else "raised")


def _sentence(error: Exception) -> str:
    """One line of an error: torch's have dozens, and the log has the traceback."""
    ours = isinstance(error, HpcpodError)
    text = str(error) if ours else in_words(error)
    text = text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."
    return text if ours else text + raised_at(error)


if __name__ == "__main__":
    sys.exit(main())

"""The pool of processes that step a batched environment: started, given commands, ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from hpcpod._process import PYTHON, THREAD_VARIABLES, ending
from hpcpod.envs.arrays import Array, Form
from hpcpod.envs.processes.memory import nameless_file, shared_arrays
from hpcpod.envs.processes.wire import Command, Wire
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.vec_env import EnvSpec, State
from hpcpod.errors import (
    Diverged,
    EnvFailed,
    HpcpodError,
    UnknownPlugin,
    UnsupportedSpace,
    UnusablePlugin,
    UnusableWrapper,
    UserError,
)

ASK_SECONDS = 0.2
"""Time between two checks that all processes live, while the work is not done."""

LOOK_SECONDS = 200e-6
"""Time that the owner polls for the end of a command before it sleeps."""

SLEEP_COMMANDS = 20
"""Commands for which it sleeps at once, after one that took longer than that."""

CLOSE_SECONDS = 2.0
"""Time that environments may take to close."""

OURS = (*PYTHON, "-u", "-m", "hpcpod.envs.processes")
"""The program of a process of this Python."""

_KINDS: dict[str | None, type[HpcpodError]] = {
    kind.__name__: kind
    for kind in (
        Diverged, UnknownPlugin, UnsupportedSpace, UnusablePlugin, UnusableWrapper, UserError,
    )
}  # fmt: skip
"""Errors that are raised here as they were there."""


_Answer = tuple[dict[str, Any], State]

_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the time of all that pools do inside, all in all; then their processes are ended, and
    ``EnvFailed`` is raised. Without it they are waited for."""
    before = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(before)


@dataclass
class _Worker:
    """One process."""

    rows: str
    """Its environments, in words."""
    process: subprocess.Popen[bytes]
    go: int
    """Descriptor of the eventfd that sets it to work."""
    end: socket.socket
    wire: Wire


class Pool:
    """Some processes, each with its part of a batch, which do one thing at a time together.

    The word to go and the word that it is done are eventfds, and a process that waits sleeps.
    Beside busy neighbours on two cores this took two processes 11.5 µs forth and back, by sockets
    24 µs; looking out for the word for 20 µs before falling asleep made it 74 µs.

    So where each process can have a core beside the owner's, the owner alone looks out, yields to
    any process that wants its core, and sleeps at once for a while after a command that took long,
    or that a neighbour made long. On two idle cores, which fall asleep themselves, 100 µs of work
    took 125 µs instead of 159 µs. When the process looked out, too, beside two busy neighbours, it
    took 4 ms.

    When one of them dies, the others are killed, and what they have started; so they are when
    the owner dies, by ``end_group_with``.
    """

    def __init__(
        self, name: str, requests: Sequence[Mapping[str, Any]], program: Sequence[str] = OURS
    ) -> None:
        """Start the processes.

        Args:
            name: the environment's, for messages.
            requests: for each process, what it is to make (see ``worker.serve``).
            program: the words that start one.
        """
        self._program = program
        self.size = len(requests)
        """Number of processes, also once they are ended."""
        self._name = name
        self._owner = os.getpid()
        self._gone: str | None = None
        self._file = nameless_file()
        self._done = os.eventfd(0)  # all processes add to it, so one read may count several
        self._ready = select.poll()
        self._ready.register(self._done, select.POLLIN)
        # With a core to spare, polling saves 34 µs of the 159 µs of a step.
        self._cores_suffice = self.size < len(os.sched_getaffinity(0))
        self._sleeps = 0  # commands for which the owner does not look out
        self._workers: list[_Worker] = []
        self._failed: Array | None = None
        try:
            for request in requests:
                self._workers.append(self._start(request))
        except BaseException:
            self._end("it was never started", gently=False)
            raise

    def specs(self) -> list[dict[str, Any]]:
        """The spec of what each process has made, as plain data; call it first.

        Raises:
            HpcpodError: one can't make it: what ``make_env`` raises.
            EnvFailed: one ran out of memory, or is gone.
        """
        with self._undisturbed():
            answers = self._receive()
            self._raise_failure([reply for reply, _ in answers])  # here: then all are ended
        return [reply["spec"] for reply, _ in answers]

    def share(self, spec: EnvSpec, action: Form | None = None) -> dict[str, Array]:
        """The arrays of the whole batch, which the processes know from now on.

        Args:
            spec: of the batch.
            action: of one environment's actions, if they are not the policy's.
        """
        arrays, places = shared_arrays(self._file, spec, len(self._workers), action)
        about = {"spec": spec_to_plain(spec), "processes": len(self._workers)}
        with self._undisturbed():
            for worker in self._workers:
                worker.wire.send({**about, **places})
        self._failed = arrays["failed"]
        return arrays

    def work(self, command: Command) -> None:
        """Have all step or reset, and come back when all are done.

        Raises:
            HpcpodError: one of them raised it. All have stopped, and can be reset.
            EnvFailed: one raised an error of the environment's, so the same; or one is gone, and so
                are all.
        """
        failures: list[dict[str, Any]] = []
        with self._undisturbed():
            assert self._failed is not None
            for worker in self._workers:
                os.eventfd_write(worker.go, command)
            left, began = len(self._workers), time.perf_counter()
            while left:
                if self._seen(began) or self._ready.poll(ASK_SECONDS * 1000):
                    left -= os.eventfd_read(self._done)
                else:
                    self._still_there()
            soon = time.perf_counter() < began + LOOK_SECONDS
            self._sleeps = max(0, self._sleeps - 1) if soon else SLEEP_COMMANDS
            if self._failed.any():
                for worker, has in zip(self._workers, self._failed.tolist(), strict=True):
                    failures.append(worker.wire.receive()[0] if has else {})
        self._raise_failure(failures)

    def save(self) -> list[State] | None:
        """The state of each process's environments; None if one can't be saved."""
        answers = self._ask(Command.SAVE)
        saved = all(reply["saved"] for reply, _ in answers)
        return [state for _, state in answers] if saved else None

    def load(self, states: Sequence[State]) -> bool:
        """Go on from what ``save`` gave; whether that played episodes again, and wrote ``obs``."""
        return any(reply["played"] for reply, _ in self._ask(Command.LOAD, states))

    def close(self) -> None:
        """End all processes and what they have started; environments may close before."""
        self._end(f"{self._name} was closed", gently=True)

    def _start(self, request: Mapping[str, Any]) -> _Worker:
        ours, theirs = socket.socketpair()
        ours.settimeout(ASK_SECONDS)
        go = os.eventfd(0)
        files = {"wire": theirs.fileno(), "go": go, "done": self._done, "memory": self._file}
        options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
        try:
            with theirs, _readable(json.dumps(request).encode()) as stdin:
                process = subprocess.Popen(
                    [*self._program, *options],
                    stdin=stdin,
                    pass_fds=tuple(files.values()),
                    env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},
                    start_new_session=True,  # a group of its own, which end_group_with kills
                )
        except BaseException:
            ours.close()
            os.close(go)
            raise
        rows = in_words(request["start"], request["stop"])
        return _Worker(rows, process, go, ours, Wire(ours, self._still_there))

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """All finish what they begin inside, or all are ended: the batch's state is unknown."""
        if self._gone is not None:
            raise EnvFailed(f"{self._gone}; make it anew")
        try:
            try:
                yield
            except (EOFError, ConnectionError):
                time.sleep(ASK_SECONDS)  # a process that ends closes its files first
                self._still_there()
                raise
        except BaseException as error:
            ours = isinstance(error, HpcpodError)
            said = str(error) if ours else f"{self._name} was interrupted in the middle of a step"
            self._end(said, gently=False)
            raise

    def _seen(self, began: float) -> bool:
        """True if a process's word that it is done was seen before it was time to sleep."""
        if self._sleeps or not self._cores_suffice:
            return False
        while time.perf_counter() < began + LOOK_SECONDS:
            if self._ready.poll(0):
                return True
            os.sched_yield()
        return False

    def _ask(self, command: Command, states: Sequence[State] = ()) -> list[_Answer]:
        with self._undisturbed():
            for worker in self._workers:
                os.eventfd_write(worker.go, command)
            for worker, state in zip(self._workers, states, strict=False):
                worker.wire.send({}, state)
            answers = self._receive()
        self._raise_failure([reply for reply, _ in answers])
        return answers

    def _receive(self) -> list[_Answer]:
        return [worker.wire.receive() for worker in self._workers]

    def _still_there(self) -> None:
        deadline = _deadline.get()
        if deadline is not None and time.monotonic() > deadline:
            raise EnvFailed(f"{self._name}: its processes took longer than they may")
        for worker in self._workers:
            code = worker.process.poll()
            if code is not None:
                raise EnvFailed(
                    f"{self._name}: the process of {worker.rows} {ending(code)}; what it said is"
                    " in the log"
                )

    def _raise_failure(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Raise the first of the errors that processes have sent, if there is any."""
        for worker, each in zip(self._workers, replies, strict=False):
            if "error" not in each:
                continue
            kind = _KINDS.get(each["error"], EnvFailed)
            if kind is Diverged:
                raise Diverged(f"{each['said']} (counted from the first of {worker.rows})")
            if kind is EnvFailed:
                raise EnvFailed(
                    f"{self._name}: the process of {worker.rows} raised {each['said']}; its"
                    " traceback is in the log"
                )
            raise kind(each["said"])

    def _end(self, why: str, *, gently: bool) -> None:
        if self._gone is not None or os.getpid() != self._owner:  # a fork of the owner owns none
            return
        self._gone = why
        if gently:
            self._let_environments_close()
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.process.pid, signal.SIGKILL)
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(CLOSE_SECONDS)
            worker.end.close()
            os.close(worker.go)
        os.close(self._done)
        os.close(self._file)
        self._workers, self._failed = [], None  # a cycle of references would keep the memory

    def _let_environments_close(self) -> None:
        for worker in self._workers:
            os.eventfd_write(worker.go, Command.CLOSE)
        left, deadline = len(self._workers), time.monotonic() + CLOSE_SECONDS
        while left and time.monotonic() < deadline:
            if self._ready.poll(ASK_SECONDS * 1000):
                left -= os.eventfd_read(self._done)
            elif any(worker.process.poll() is not None for worker in self._workers):
                return


def shared_out(request: Mapping[str, Any], num_envs: int, processes: int) -> list[dict[str, Any]]:
    """The request to each process: its ``place``, and the rows from ``start`` to ``stop``."""
    bounds = [num_envs * i // processes for i in range(processes + 1)]
    return [
        {**request, "place": i, "start": bounds[i], "stop": bounds[i + 1]} for i in range(processes)
    ]


def in_words(start: int, stop: int) -> str:
    """Some environments of a batch, as messages name them."""
    return f"environment {start}" if stop == start + 1 else f"environments {start} to {stop - 1}"


@contextlib.contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """A descriptor to read the bytes from: unlike a pipe's, its writer never waits."""
    file = nameless_file()
    try:
        with open(file, "wb", closefd=False) as writer:
            writer.write(data)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)

"""The guard of a training program: a process that starts it, and leaves nobody of it behind.

The guard is the subreaper of all that the program starts, so that daemons become its children. It
ends them when the program has ended, when it is told to, and when the process that it guards for is
gone, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h: ctypes has no header

KILL_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""

STARTERS = (
    "srun", "mpirun", "mpiexec", "orterun", "prterun", "prte", "hydra_pmi_proxy", "aprun", "jsrun",
)  # fmt: skip
"""Commands that have started tasks on other nodes: they end those if they are asked to end, and
leave them alone if they are killed."""

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""Slurm signals all of a step, and the guard must outlive what it has to end."""
_DEFAULT = (*_IGNORED, signal.SIGPIPE)


class Guarded:
    """A program that runs under a guard, seen from the process that started it."""

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path, leave: Path
    ) -> None:
        """Start it.

        Args:
            command: its words.
            variables: its environment, whole.
            folder: in which it is started.
            leave: a folder that the guard removes if this process is gone.
        """
        ours, theirs = os.pipe(), os.pipe()  # the guard reads commands, and writes how it ended
        printed = os.pipe()
        pipes = ours[0], theirs[1], printed[1]
        guard = _Guard(command, variables, folder, leave, pipes)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                # Nothing of this process may stay open in it: the slot waits for its pipe's end.
                _close_all_but({*pipes})
                guard.run()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        for descriptor in pipes:
            os.close(descriptor)
        self._commands, self._ends, self.output = ours[1], theirs[0], printed[0]
        os.set_blocking(self.output, False)
        self._received = b""
        self.ending: int | str | None = None
        """None while it runs; then its exit code as ``subprocess`` has it, or why it could not be
        started."""

    def look(self) -> bool:
        """Look whether the program has ended; what it has started may be ending yet."""
        if self.ending is None and select.select([self._ends], [], [], 0.0)[0]:
            self._read()
        return self.ending is not None

    def _read(self) -> None:
        chunk = os.read(self._ends, 4096)
        self._received += chunk
        if b"\n" in self._received:
            word, _, rest = self._received.partition(b"\n")[0].decode().partition(" ")
            self.ending = int(rest) if word == "exit" else rest
        elif not chunk:
            self.ending = -int(signal.SIGKILL)  # the guard itself was killed

    def terminate(self) -> None:
        """Have the program and all that it has started end: SIGTERM, and 5 s later SIGKILL."""
        self._tell(b"t")

    def close(self, *, kindly: bool = False) -> None:
        """End all of it, and wait until nobody is left: at once, unless ``kindly`` or where tasks
        are on other nodes."""
        self._tell(b"t" if kindly else b"k")
        os.close(self._commands)
        if self.ending is None:
            while self.ending is None:
                self._read()
        os.waitpid(self._pid, 0)
        os.close(self._ends)

    def _tell(self, command: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, command)


class _Guard:
    """The guard's own process."""

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path, leave: Path,
        pipes: tuple[int, int, int],
    ) -> None:  # fmt: skip
        self._command, self._variables = command, variables
        self._folder, self._leave = folder, leave
        self._commands, self._ends, self._printed = pipes
        self._parent = os.getpid()
        self._kills_at: float | None = None

    def run(self) -> None:
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        os.setpgid(0, 0)  # the slot kills the group of the process that it knows
        if sys.platform == "linux":
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            program = self._start()
        except OSError as error:
            self._say(f"never {error.strerror}: {error.filename or self._command[0]}")
            return
        os.close(self._printed)
        code = self._wait(program)
        self._say(f"exit {code}")
        self._end_rest()

    def _start(self) -> int:
        os.chdir(self._folder)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, at in ((null, 0), (self._printed, 1), (self._printed, 2)):
            os.dup2(number, at)
        os.environ["PATH"] = self._variables.get("PATH", os.defpath)  # where the word is looked for
        return os.posix_spawnp(
            self._command[0], list(self._command), dict(self._variables),
            setpgroup=0, setsigdef=list(_DEFAULT), setsigmask=[],
        )  # fmt: skip

    def _wait(self, program: int) -> int:
        """Wait until the program has ended; its exit code."""
        waiting = select.poll()
        waiting.register(os.pidfd_open(program), select.POLLIN)  # Linux 5.3
        waiting.register(self._commands, select.POLLIN)
        while True:
            left = None if self._kills_at is None else self._kills_at - time.monotonic()
            for descriptor, _ in waiting.poll(None if left is None else max(0.0, 1000 * left)):
                if descriptor == self._commands and not self._obey():
                    waiting.unregister(self._commands)
            if self._kills_at is not None and time.monotonic() >= self._kills_at:
                self._signal_all(signal.SIGKILL)
                self._kills_at = time.monotonic() + 1.0  # one may be born meanwhile
            done, status = os.waitpid(program, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)

    def _obey(self) -> bool:
        """Obey what this guard is told; False if no more will come."""
        command = os.read(self._commands, 64)
        if not command:  # the other process is gone, or has told all
            if self._kills_at is None:
                self._end(kindly=False)
            return False
        self._end(kindly=b"k" not in command)
        return True

    def _end(self, *, kindly: bool) -> None:
        """Have all end by SIGTERM, and ``KILL_SECONDS`` later by SIGKILL; or at once."""
        if not kindly and not _starters():
            self._kills_at = time.monotonic()
        elif self._kills_at is None:
            self._signal_all(signal.SIGTERM)
            self._kills_at = time.monotonic() + KILL_SECONDS

    def _end_rest(self) -> None:
        """End all that the program has left behind, and its folder if nobody else does."""
        while _any_child():
            if _starters():
                self._end(kindly=True)
            if self._kills_at is None or time.monotonic() >= self._kills_at or not _starters():
                self._signal_all(signal.SIGKILL)
            time.sleep(0.005)
        if os.getppid() != self._parent:
            shutil.rmtree(self._leave, ignore_errors=True)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _say(self, words: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._ends, words.replace("\n", " ").encode() + b"\n")


def _descendants() -> list[int]:
    """All processes below this one, by ``/proc``."""
    parents = {pid: parent for pid, parent, _ in _processes()}
    found: list[int] = []
    above = {os.getpid()}
    while above:
        above = {pid for pid, parent in parents.items() if parent in above and pid not in found}
        found += sorted(above)
    return found


def _any_child() -> bool:
    """True unless this process has no child left; those that have ended are waited for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _starters() -> bool:
    """True if something below this process may have started tasks on other nodes."""
    names = {pid: name for pid, _, name in _processes()}
    return any(names.get(pid) in STARTERS for pid in _descendants())


def _processes() -> Iterator[tuple[int, int, str]]:
    """Each process: its number, its parent's, its command's name."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # Behind the name, in which anything may stand: state, parent, ...
            before, _, after = Path(entry.path, "stat").read_bytes().rpartition(b")")
            name = before.partition(b"(")[2].decode(errors="replace")
            yield int(entry.name), int(after.split()[1]), name
        except (OSError, IndexError, ValueError):  # it has just ended
            continue


def _close_all_but(kept: set[int]) -> None:
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):  # errors still go to the log
        os.dup2(null, number)

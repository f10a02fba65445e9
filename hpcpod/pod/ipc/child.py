"""The slot's end of the pipes to a process that trains or scores. No torch on this side."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Literal

from hpcpod._process import ending, killed
from hpcpod.config.schema import RunConfig
from hpcpod.pod.ipc import commands
from hpcpod.pod.ipc.commands import command, environment
from hpcpod.pod.ipc.messages import (
    Command,
    FailureReply,
    Reply,
    Work,
    command_line,
    parse_reply,
)

CLOSE_SECONDS = 5.0
"""Seconds that a process with nothing more to do may take to end."""


class ChildDied(Exception):
    """The training process ended in the middle of an order."""

    def __init__(self, returncode: int) -> None:
        self.kind: Literal["crash", "memory"] = "memory" if killed(returncode) else "crash"
        super().__init__(
            f"the training process {ending(returncode)}; its log has the traceback, if there is one"
        )


class Child:
    """One process that trains or scores, fed with work, one piece after another.

    It leads a process group, so that whatever a simulator has started ends with it.
    """

    def __init__(self, run: Path, slot: str, config: RunConfig, *, scorer: bool = False) -> None:
        """Start it; a trainer is one process for each rank of a pod.

        Raises:
            LaunchError: what starts ranks is not installed.
        """
        meeting = f"{slot}-{os.urandom(6).hex()}"
        words = (
            commands.scorer(run, slot, config) if scorer else command(run, slot, config, meeting)
        )
        self._by_srun = words[0] == "srun"
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(config),
            start_new_session=True,  # a group of its own, which is killed as one
        )
        assert self._process.stdout is not None
        self._reading = self._process.stdout.fileno()
        os.set_blocking(self._reading, False)
        self._received = b""

    @property
    def pid(self) -> int:
        """Of the process, or of what has started one for each rank."""
        return self._process.pid

    @property
    def session(self) -> int | None:
        """Session of the process and of all that it starts; None if srun starts them elsewhere."""
        return None if self._by_srun else self._process.pid

    @property
    def ended(self) -> bool:
        """True if the process is gone."""
        return self._process.poll() is not None

    def fileno(self) -> int:
        """The descriptor that becomes readable once there is a reply, or the process has ended."""
        return self._reading

    def send(self, work: Work) -> None:
        """Give the process something to do; it must not be busy.

        Raises:
            ChildDied: the process is gone.
        """
        try:
            self._write(work.line())
        except BrokenPipeError:
            raise ChildDied(self._process.wait()) from None

    def receive(self, seconds: float) -> Reply | None:
        """The next reply, or None if there is none within ``seconds``.

        A line that is no reply is a failure of the process.

        Raises:
            ChildDied: the process has ended and nothing it said is left.
        """
        if b"\n" not in self._received:
            self._received += self._read(seconds)  # a part of a line, or several
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        try:
            return parse_reply(line)
        except ValueError as error:
            return FailureReply(f"the training process is out of step: {error}", "crash")

    def _read(self, seconds: float) -> bytes:
        # Asked before reading, so that its last words are read. The pipe alone does not tell:
        # a simulator's worker may outlive the process and hold the pipe open.
        ended = self.ended
        ready, _, _ = select.select([self._reading], [], [], 0.0 if ended else seconds)
        chunk = os.read(self._reading, 1 << 16) if ready else b""
        if not chunk and (ready or ended):
            raise ChildDied(self._process.wait())
        return chunk

    def command(self, command: Command) -> None:
        """Have the process stop, or discard what it does."""
        with contextlib.suppress(BrokenPipeError):
            self._write(command_line(command))

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it now, and all that it has started."""
        if self._by_srun and not self.ended:
            # An srun that is killed leaves its tasks alone in the job; one that is asked ends them.
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process, kindly first, and wait until it is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        self.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

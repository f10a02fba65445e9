"""The slot's end of the line to its training process. No torch on this side."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from hpcpod.config.schema import ResourcesConfig
from hpcpod.records import Order, Rescore, encode

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

CALM = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
"""Threads that wait fall asleep soon. By default they spin on: beside a busy neighbour two of them
made PPO's updates 20 to 60 times as slow as one. Sleeping at once halves them on quiet cores."""

CLOSE_SECONDS = 5.0
"""How long a process that has nothing more to do may take to end."""


class ChildDied(Exception):
    """The training process ended in the middle of an order."""

    def __init__(self, returncode: int) -> None:
        killed = -returncode if returncode < 0 else 0
        self.kind: Literal["crash", "memory"] = "memory" if killed == signal.SIGKILL else "crash"
        if killed == signal.SIGKILL:
            why = "was killed (SIGKILL: most often the memory limit)"
        elif killed:
            why = f"was ended by {signal.Signals(killed).name}"
        else:
            why = f"ended with exit code {returncode}"
        super().__init__(f"the training process {why}; its log has the traceback, if there is one")


class Child:
    """One training process, fed with orders one after another.

    It leads a process group, so that whatever a simulator has started ends with it.
    """

    def __init__(self, run: Path, slot: str, resources: ResourcesConfig) -> None:
        reading, writing = os.pipe()
        threads = {name: str(resources.cpus_per_pod) for name in THREAD_VARIABLES}
        self._process = subprocess.Popen(
            [
                sys.executable, "-u", "-m", "hpcpod.pod", str(run),
                "--slot", slot, "--reply", str(writing), "--parent", str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            pass_fds=(writing,),
            env={**CALM, **os.environ, **threads},
            start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        os.set_blocking(reading, False)
        self._reading = reading
        self._received = b""

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def send(self, order: Order) -> None:
        """Give the process an order; it must not be busy with another.

        Raises:
            ChildDied: there is nobody to take it.
        """
        kind = "rescore" if isinstance(order, Rescore) else "birth"
        line = json.dumps({"kind": kind, "order": encode(order)}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildDied(self._process.wait()) from None

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next reply, or None if there is none within ``seconds``.

        Raises:
            ChildDied: the process has ended and nothing it said is left.
        """
        if b"\n" not in self._received:
            self._received += self._read(seconds)
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _read(self, seconds: float) -> bytes:
        # Asked before reading, so that its last words are read. The pipe alone does not tell:
        # a simulator's worker may outlive the process and hold the pipe open.
        ended = self.ended
        ready, _, _ = select.select([self._reading], [], [], 0.0 if ended else seconds)
        chunk = os.read(self._reading, 1 << 16) if ready else b""
        if not chunk and (ready or ended):
            raise ChildDied(self._process.wait())
        return chunk

    def ask_to_stop(self) -> None:
        """Have it checkpoint and end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now, and all that it has started."""
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
        os.close(self._reading)

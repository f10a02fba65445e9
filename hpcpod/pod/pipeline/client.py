"""The pod's end of the channel to its actor process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import weakref
from multiprocessing.connection import Connection
from typing import Any

import torch

from hpcpod._process import PYTHON, ending
from hpcpod.config.schema import RunConfig
from hpcpod.envs.processes.memory import nameless_file
from hpcpod.envs.vec_env import State
from hpcpod.pod.device import device_of
from hpcpod.pod.ipc.commands import TUNED
from hpcpod.pod.pipeline.channel import Channel

CLOSE_SECONDS = 5.0
"""Time that a process with nothing more to do may take to end."""


class ActorDied(Exception):
    """The actor process is gone."""

    def __init__(self, returncode: int) -> None:
        super().__init__(f"the actor process {ending(returncode)}; what it last said is in the log")


class Elsewhere(Exception):
    """A traceback of the actor process, the cause of what is raised here."""


class Client:
    """A process that collects, one for all rounds of a pod; see ``actor.Actor``."""

    def __init__(self, config: RunConfig) -> None:
        """Start nothing yet."""
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, if there is none, without waiting for it."""
        if self._process is not None:
            return
        ours, theirs = socket.socketpair()
        to, back = nameless_file(), nameless_file()
        words = {"socket": theirs.fileno(), "outgoing": back, "incoming": to, "parent": os.getpid()}
        options = [text for name, number in words.items() for text in (f"--{name}", str(number))]
        self._process = subprocess.Popen(
            [*PYTHON, "-u", "-m", "hpcpod.pod.pipeline", *options],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), back, to),
            # The user's own variables win; a plugin may lie beside the script.
            env={**TUNED, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()
        connection = Connection(ours.detach())
        self._end = weakref.finalize(self, _end, self._process, connection, (to, back))
        self._channel = Channel(connection, to, back)
        with contextlib.suppress(OSError):  # who asks it something will see that it died
            on_gpu = device_of(self._config) == "cuda"
            connection.send((self._config, torch.cuda.current_device() if on_gpu else None))

    def ask(
        self, method: str, *arguments: object, tensors: State | None = None
    ) -> tuple[Any, State]:
        """Ask for something; wait for its value and tensors.

        Raises:
            Exception: what was raised there, its traceback the cause.
            ActorDied: the process is gone.
        """
        self.send(method, *arguments, tensors=tensors)
        return self.receive()

    def send(self, method: str, *arguments: object, tensors: State | None = None) -> None:
        """Ask for something, and do not wait; ``receive`` does."""
        self.start()
        try:
            self._channel.send((method, arguments), tensors)
        except OSError as error:
            raise self._died() from error

    def receive(self) -> tuple[Any, State]:
        """The answer to what was sent; see ``ask``."""
        try:
            (well, said), tensors = self._channel.receive()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if not well:
            failure, there = said
            raise failure from Elsewhere(f"in the actor process:\n{there}")
        return said, tensors

    def kill(self) -> None:
        """End the process, whatever it is doing; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process = None
            self._end()

    def _died(self) -> ActorDied:
        assert self._process is not None
        process = self._process
        self.close()
        return ActorDied(process.returncode)


def _end(process: subprocess.Popen[bytes], connection: Connection, memory: tuple[int, ...]) -> None:
    """Hang up, and wait for the process, not for ever."""
    connection.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(CLOSE_SECONDS)
    process.kill()
    process.wait()
    for descriptor in memory:
        os.close(descriptor)

"""One process of a batch: it steps its part of the environments."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import torch

from hpcpod.envs.arrays import Array
from hpcpod.envs.make import make_env
from hpcpod.envs.processes.memory import shared_arrays
from hpcpod.envs.processes.wire import Command, Wire
from hpcpod.envs.spec_json import spec_from_plain, spec_to_plain
from hpcpod.envs.vec_env import State, Step, VecEnv
from hpcpod.errors import HpcpodError, UserError, in_words

_Answer = tuple[dict[str, Any], State | None]

_ANYTHING = (Exception, SystemExit)
"""Errors of environments: they may raise whatever they like."""


def serve(request: Mapping[str, Any], wire: int, go: int, done: int, memory: int) -> None:
    """Make the environments and do what is asked until it is to close them.

    Args:
        request: what to make, how, and which rows of the batch that is (see ``ProcessVecEnv``).
        wire: descriptor of the socket.
        go: of the eventfd that gives the commands.
        done: of the eventfd that counts the processes that have done theirs.
        memory: of the shared memory.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(request["flush_denormal"])  # a pod flushes: equal bits need it here
    with socket.socket(fileno=wire) as end:
        said = Wire(end)
        try:
            env = _make(request)
        except _ANYTHING as error:
            said.send(_as_message(error))
            _next(go)  # an end now would look like a death
            return
        said.send({"spec": spec_to_plain(env.spec)})
        whole, _ = said.receive()
        shared, _ = shared_arrays(memory, spec_from_plain(whole["spec"]), whole["processes"])
        worker = Worker(request, env, said, shared)
        while (command := _next(go)) != Command.CLOSE:
            worker.execute(command, done)
        try:
            env.close()
        finally:
            os.eventfd_write(done, 1)


def _next(go: int) -> int:
    # os.eventfd_read(go), which a signal would interrupt.
    return int.from_bytes(os.read(go, 8), sys.byteorder)


def _make(request: Mapping[str, Any]) -> VecEnv:
    count = request["stop"] - request["start"]
    return make_env(
        request["env"], count, request["backend"], "cpu", request["wrappers"], request["kwargs"]
    )


def _as_message(error: BaseException) -> dict[str, Any]:
    """An error as it goes over the wire; the traceback of one that is no user's goes to the log."""
    if not isinstance(error, UserError):
        traceback.print_exception(error)
    purposely = isinstance(error, HpcpodError)
    return {
        "error": type(error).__name__ if purposely else None,
        "said": str(error) if purposely else in_words(error),
    }


class Worker:
    """The environments of this process and its rows of the shared arrays."""

    def __init__(
        self, request: Mapping[str, Any], env: VecEnv, wire: Wire, shared: dict[str, Array]
    ) -> None:
        self._env, self._wire = env, wire
        rows, place = slice(request["start"], request["stop"]), request["place"]
        self._failed = shared["failed"][place : place + 1]
        self._seeds, self._action = shared["seeds"][rows], shared["action"][rows]
        self._step_arrays = [shared[name][rows] for name in Step._fields]
        self._obs = shared["obs"][rows]

    def execute(self, command: int, done: int) -> None:
        """Obey a command of the pool's, and answer it."""
        if command in (Command.SAVE, Command.LOAD):
            given = self._wire.receive()[1] if command == Command.LOAD else None
            try:
                answer = self._save() if given is None else self._load(given)
            except _ANYTHING as error:
                answer = _as_message(error), None
            self._wire.send(*answer)
            return
        failure = None
        try:
            self._step() if command == Command.STEP else self._reset()
        except _ANYTHING as error:
            failure = _as_message(error)
        self._failed[:] = failure is not None
        os.eventfd_write(done, 1)
        # Only now: until all are done the pool does not read the wire, which holds some 100 kB.
        if failure is not None:
            self._wire.send(failure)

    def _reset(self) -> None:
        # Copies here and below: an environment may keep what it is given.
        self._obs[:] = self._env.reset(torch.from_numpy(self._seeds.copy())).numpy()

    def _step(self) -> None:
        step = self._env.step(torch.from_numpy(self._action.copy()))
        for array, values in zip(self._step_arrays, step, strict=True):
            array[:] = values.numpy()

    def _save(self) -> _Answer:
        state = self._env.state()
        return {"saved": state is not None}, state

    def _load(self, state: State) -> _Answer:
        obs = self._env.restore(state)
        if obs is not None:
            self._obs[:] = obs.numpy()
        return {"played": obs is not None}, None

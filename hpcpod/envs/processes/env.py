"""A batched environment of which several processes step a part each."""

from __future__ import annotations

import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcpod.config.placement import ON_ONE_DEVICE
from hpcpod.envs.arrays import Array, as_step, tensor
from hpcpod.envs.backend import Wanted
from hpcpod.envs.gymnasium_make import name_of
from hpcpod.envs.processes.pool import Pool, shared_out
from hpcpod.envs.processes.states import joined, parted
from hpcpod.envs.processes.wire import Command, plain
from hpcpod.envs.spec_json import spec_from_plain
from hpcpod.envs.vec_env import (
    EnvSpec,
    State,
    Step,
    check_action_shape,
    check_batch,
    given_seeds,
)
from hpcpod.errors import UserError


class Pooled(ABC):
    """N environments that the processes of a pool step; arrays go through memory that all share."""

    spec: EnvSpec
    _arrays: Mapping[str, Array]

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._end = weakref.finalize(self, pool.close)
        self._begun = False

    @property
    def processes(self) -> int:
        """The number of processes that step it."""
        return self._pool.size

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        self._arrays["seeds"][:] = given_seeds(seeds, self.spec.num_envs).cpu().numpy()
        self._pool.work(Command.RESET)
        self._begun = True
        return tensor(self._observed(), self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        if not self._begun:
            raise RuntimeError("call reset() before step()")
        check_action_shape(action, self.spec)
        self._give(action.detach().cpu().numpy())
        self._pool.work(Command.STEP)
        return self._taken()

    def close(self) -> None:
        """Close the environments and end the processes, also if they hang."""
        self._end()

    def _observed(self) -> Array:
        """The observations after a reset."""
        obs: Array = self._arrays["obs"].copy()
        return obs

    @abstractmethod
    def _give(self, action: Array) -> None:
        """Write the actions for the processes."""

    @abstractmethod
    def _taken(self) -> Step:
        """The step that the processes have taken."""


class ProcessVecEnv(Pooled):
    """N environments, the first ones in one process, the next ones in another, and so on.

    Each process makes its part by ``make_env``, so observations, rewards and ends of episodes are
    those of one process, bit by bit: an episode is decided by its seed and its actions. A process
    that waits sleeps.

    An error that environments raise is raised here, and ``reset`` begins anew. When a process
    dies, the others are ended, and every later call says so: make it anew.
    """

    def __init__(self, wanted: Wanted, processes: int) -> None:
        """Start the processes and have them make the environments.

        Args:
            wanted: the batch, by an id or a path and by plain data.
            processes: from 1 to N.

        Raises:
            UserError: the environment can't be made, or can't be described to other processes.
            EnvFailed: a process has ended meanwhile.
        """
        num_envs, device = wanted.num_envs, wanted.device
        if wanted.backend in ON_ONE_DEVICE and device != "cpu":
            raise UserError(
                f"backend {wanted.backend} steps all environments on {device} at once, and"
                " processes would take them to the CPU; leave out env.processes"
            )
        check_batch(num_envs, device)
        if not 1 <= processes <= num_envs:
            raise UserError(
                f"processes must be from 1 to num_envs, got processes {processes} and num_envs"
                f" {num_envs}"
            )
        requests = shared_out(_request(wanted), num_envs, processes)
        self._rows = [range(each["start"], each["stop"]) for each in requests]
        super().__init__(Pool(wanted.env, requests))
        self.spec = _whole(self._pool.specs(), num_envs, device)
        self._arrays = self._pool.share(self.spec)

    def _give(self, action: Array) -> None:
        np.copyto(self._arrays["action"], action, casting="same_kind")

    def _taken(self) -> Step:
        return as_step(self.spec.device, *(self._arrays[name].copy() for name in Step._fields))

    def state(self) -> State | None:
        """As of one process that steps all; None if one of the processes says None."""
        saved = self._pool.save() if self._begun else None
        return None if saved is None else joined(saved, self._rows)

    def restore(self, state: State) -> Tensor | None:
        """Go on from a ``state()`` of an environment made with the same arguments, whether that was
        stepped by as many processes or not; see ``VecEnv.restore``."""
        played = self._pool.load(parted(state, self._rows))
        self._begun = True
        return tensor(self._observed(), self.spec.device) if played else None


def _request(wanted: Wanted) -> dict[str, Any]:
    """The request to every process.

    Raises:
        UserError: it can't be said in JSON.
    """
    if not isinstance(wanted.env, str):
        raise UserError(
            f"other processes can't be given {name_of(wanted.env)} itself; give its path, such as"
            " 'pkg.mod:MyEnv', or leave processes at 1"
        )
    named = plain(wanted.env, wanted.wrappers, wanted.kwargs)
    # Simulators compute with denormal numbers, or without, as they would in this process.
    flushes = float(torch.tensor(1e-40) * 1.0) == 0.0
    return {**named, "backend": wanted.backend, "path": sys.path, "flush_denormal": flushes}


def _whole(specs: Sequence[Mapping[str, Any]], num_envs: int, device: str) -> EnvSpec:
    """The spec of the batch, from those of its parts.

    Raises:
        UserError: they differ.
    """
    wholes = [replace(spec_from_plain(spec), num_envs=num_envs, device=device) for spec in specs]
    if any(whole != wholes[0] for whole in wholes):
        raise UserError(
            f"{wholes[0].id} has other spaces or another engine in one process than in another;"
            " make it the same whenever it is made, or set env.processes to 1"
        )
    return wholes[0]

"""A batched environment of which several processes step a part each."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcpod.envs.arrays import as_step, tensor
from hpcpod.envs.gymnasium_make import Wrapper, name_of
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


class ProcessVecEnv:
    """N environments, the first ones in one process, the next ones in another, and so on.

    Each process makes its part by ``make_env``, so observations, rewards and ends of episodes are
    those of one process, bit by bit: an episode is decided by its seed and its actions. Arrays
    go through memory that all share. A process that waits sleeps.

    An error that environments raise is raised here, and ``reset`` begins anew. When a process
    dies, its fellows are ended, and every later call says so: make it anew.
    """

    def __init__(
        self,
        env: object,
        num_envs: int,
        processes: int,
        backend: str = "auto",
        device: str = "cpu",
        wrappers: Sequence[Wrapper] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        """Start the processes and have them make the environments.

        Args:
            env: a gymnasium id, or the path ``"pkg.mod:EnvClass"``; all else is refused.
            num_envs: N.
            processes: from 1 to N.
            backend: what steps the environments in each process, as for ``make_env``.
            device: where the tensors that it gives live; the simulation is on the CPU.
            wrappers: as for ``make_env``, of plain data.
            kwargs: of the environment itself, plain data too.

        Raises:
            UserError: the environment can't be made, or other processes can't be told how.
            EnvFailed: a process has ended meanwhile.
        """
        if backend in ("torch", "warp") and device != "cpu":
            raise UserError(
                f"backend {backend} steps all environments on {device} at once, and processes would"
                " take them to the CPU; leave out env.processes"
            )
        check_batch(num_envs, device)
        if not 1 <= processes <= num_envs:
            raise UserError(
                f"processes must be from 1 to num_envs, got processes {processes} and num_envs"
                f" {num_envs}"
            )
        request = _request(env, backend, wrappers, kwargs or {})
        requests = shared_out(request, num_envs, processes)
        self._rows = [range(each["start"], each["stop"]) for each in requests]
        self._pool = Pool(request["env"], requests)
        self._end = weakref.finalize(self, self._pool.close)
        self.spec = _whole(self._pool.specs(), num_envs, device)
        self._arrays = self._pool.share(self.spec)
        self._begun = False

    @property
    def processes(self) -> int:
        """The number of processes that step it."""
        return self._pool.size

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        self._arrays.seeds[:] = given_seeds(seeds, self.spec.num_envs).cpu().numpy()
        self._pool.work(Command.RESET)
        self._begun = True
        return tensor(self._arrays.obs.copy(), self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        if not self._begun:
            raise RuntimeError("call reset() before step()")
        check_action_shape(action, self.spec)
        arrays = self._arrays
        np.copyto(arrays.action, action.detach().cpu().numpy(), casting="same_kind")
        self._pool.work(Command.STEP)
        return as_step(
            self.spec.device, arrays.obs.copy(), arrays.reward.copy(), arrays.terminated.copy(),
            arrays.truncated.copy(), arrays.next_obs.copy(), arrays.valid.copy(),
        )  # fmt: skip

    def state(self) -> State | None:
        """As of one process that steps all; None if one of the processes says None."""
        saved = self._pool.save() if self._begun else None
        if saved is None:
            return None
        return joined(saved, self._rows)

    def restore(self, state: State) -> Tensor | None:
        """Go on from a ``state()`` of an environment made with the same arguments, whether that was
        stepped by as many processes or not; see ``VecEnv.restore``."""
        played = self._pool.load(parted(state, self._rows))
        self._begun = True
        return tensor(self._arrays.obs.copy(), self.spec.device) if played else None

    def close(self) -> None:
        """Close the environments and end the processes, also if they hang."""
        self._end()


def _request(
    env: object,
    backend: str,
    wrappers: Sequence[Wrapper],
    kwargs: Mapping[str, object],
) -> dict[str, Any]:
    """The request to every process.

    Raises:
        UserError: it can't be said in JSON.
    """
    if not isinstance(env, str):
        raise UserError(
            f"other processes can't be given {name_of(env)} itself; give its path, such as"
            " 'pkg.mod:MyEnv', or leave processes at 1"
        )
    told = plain(env, wrappers, kwargs)
    # Simulators compute with denormal numbers, or without, as they would in this process.
    flushes = float(torch.tensor(1e-40) * 1.0) == 0.0
    return {**told, "backend": backend, "path": sys.path, "flush_denormal": flushes}


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

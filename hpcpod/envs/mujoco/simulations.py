"""N simulations of one MuJoCo model, stepped by a pool of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import mujoco
import numpy as np

from hpcpod.envs.arrays import Array
from hpcpod.envs.mujoco.task import Fields
from hpcpod.envs.mujoco.threads import Helpers

_PIECES_PER_THREAD = 4
"""A thread that is done early takes another's piece: simulations with many contacts are slower."""
_SMALLEST_PIECE = 8

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class _Piece(NamedTuple):
    """Simulations that one thread steps one after another."""

    simulations: list[tuple[Any, Array, Array]]
    """MjData, its ``ctrl``, and the row that is copied there."""
    outputs: list[tuple[list[Array], Array]]
    """Views of a field in each MjData, and where they are gathered."""


class Simulations:
    """One MjData per environment: exactly gymnasium's numbers, without its loop.

    mj_step lets go of the interpreter's lock, so Python threads suffice. Against MuJoCo's own
    pool (``mujoco.batch``) they cost a tenth on the cheapest task and nothing on Ant, and
    after the step they can still call mj_rnePostConstraint on the same MjData. That is what
    gymnasium's v5 tasks do, and what they read is of the last stage of the integrator.
    """

    def __init__(
        self,
        model: Any,
        count: int,
        frame_skip: int,
        reads: Sequence[str],
        forces: bool,
        threads: int,
    ) -> None:
        """Make them.

        Args:
            model: the MjModel.
            count: N.
            frame_skip: simulation steps in a ``step()``.
            reads: the fields of MjData that ``step()`` gives.
            forces: compute ``cfrc_ext`` too.
            threads: how many step, the caller's among them.
        """
        self._model, self._frame_skip, self._forces = model, frame_skip, forces
        self._data = [mujoco.MjData(model) for _ in range(count)]
        self._views = {name: [getattr(data, name) for data in self._data] for name in reads}
        self._fields = {
            name: np.empty((count, *views[0].shape)) for name, views in self._views.items()
        }
        self._ctrl = np.empty((count, model.nu))
        threads = min(threads, count)
        self._pieces = self._cut(threads)
        self._helpers = Helpers(threads - 1, "mujoco")

    def step(self, ctrl: Array) -> Fields:
        """Step every simulation; ``ctrl`` is [N, nu].

        Returns:
            The fields, [N, ...]: buffers that the next call fills anew.
        """
        self._ctrl[:] = ctrl
        self._helpers.run(partial(self._work, deque(self._pieces)))
        return self._fields

    def start(self, i: int, qpos: Array, qvel: Array) -> None:
        """Begin simulation ``i`` anew from these positions and velocities."""
        data = self._data[i]
        mujoco.mj_resetData(self._model, data)
        data.qpos[:] = qpos
        data.qvel[:] = qvel
        mujoco.mj_forward(self._model, data)

    def fields(self, rows: Sequence[int]) -> Fields:
        """The fields of some simulations as they are now, [len(rows), ...], copied."""
        return {name: np.stack([views[i] for i in rows]) for name, views in self._views.items()}

    def save(self) -> Array:
        """All that decides how each simulation goes on, float64 [N, mj_stateSize]."""
        states = np.empty((len(self._data), mujoco.mj_stateSize(self._model, _STATE)))
        for data, state in zip(self._data, states, strict=True):
            mujoco.mj_getState(self._model, data, state, _STATE)
        return states

    def load(self, states: Array) -> None:
        """Go on from what ``save`` gave."""
        for data, state in zip(self._data, states, strict=True):
            mujoco.mj_setState(self._model, data, state, _STATE)

    def close(self) -> None:
        """End the threads."""
        self._helpers.close()

    def _cut(self, threads: int) -> list[_Piece]:
        count = len(self._data)
        size = max(_SMALLEST_PIECE, -(-count // (threads * _PIECES_PER_THREAD)))
        size = count if threads == 1 else min(size, -(-count // threads))
        return [self._piece(slice(at, at + size)) for at in range(0, count, size)]

    def _piece(self, rows: slice) -> _Piece:
        data = self._data[rows]
        return _Piece(
            list(zip(data, [d.ctrl for d in data], self._ctrl[rows], strict=True)),
            [(views[rows], self._target(name, rows)) for name, views in self._views.items()],
        )

    def _target(self, name: str, rows: slice) -> Array:
        """Where a piece's views of a field are gathered: joined along their first dimension."""
        target = self._fields[name][rows]
        return target.reshape(-1, *target.shape[2:])

    def _work(self, pending: deque[_Piece]) -> None:
        model, steps, forces = self._model, self._frame_skip, self._forces
        step, add_forces, copy = mujoco.mj_step, mujoco.mj_rnePostConstraint, np.copyto
        while True:
            try:
                simulations, outputs = pending.popleft()
            except IndexError:
                return
            for data, ctrl, row in simulations:
                copy(ctrl, row)
                step(model, data, steps)
                if forces:
                    add_forces(model, data)  # v5 reads xpos, cfrc_ext at RK4's last stage
            for views, target in outputs:
                np.concatenate(views, out=target)

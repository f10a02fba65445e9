"""N simulations of one MuJoCo model in MuJoCo Warp: tensors in, tensors out, on one device."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from hpcpod.envs.mujoco.task import Fields

_log = logging.getLogger(__name__)

_STATE = ("qpos", "qvel", "qacc_warmstart")
"""Fields that decide how a simulation of these models goes on: no activations, no mocap bodies."""

_DROPPED = mjw.OverflowType.ALL & ~(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)
"""Overflows that drop a contact or a constraint. A solver at its limit only stops, as in C."""

_PLAIN = {"qpos", "qvel", "ctrl", "cfrc_ext"}
"""Fields of a first state that are known without computing it: forces on it are zero."""


class WarpSimulations:
    """The worlds of one mjw.Data; every field is a view of its memory, nothing is copied.

    A step of the environment is ``frame_skip`` steps of RK4 or Euler, then the contact forces as of
    the integrator's last stage: the same order on the same data as gymnasium's v5 tasks, so what
    they read is of that stage here too. Everything is float32.

    A step is captured once and replayed: Python would launch a thousand kernels one by one, which
    took 30 to 50 times as long for a few worlds on the CPU. On a GPU it is a CUDA graph on torch's
    current stream; the solver's loop is a conditional node of it, or, with a driver before CUDA
    12.4, all its iterations. Where a GPU's driver has no memory pools, which RK4 needs to be
    captured, the kernels are launched one by one.
    """

    def __init__(
        self,
        model: Any,
        count: int,
        frame_skip: int,
        reads: Iterable[str],
        device: str,
        contacts: int | None = None,
        constraints: int | None = None,
    ) -> None:
        """Make them, compile their kernels and step once.

        Args:
            model: the MjModel; PGS, which MuJoCo Warp does not have, becomes Newton in it.
            count: N.
            frame_skip: simulation steps in a ``step()``.
            reads: the fields of MjData that are read.
            device: torch's name of it.
            contacts: for which there is room, per world on average. None: MuJoCo Warp's own
                choice, which is 48 for all of gymnasium's tasks, where 12 were seen at most.
            constraints: rows for which each world has room. None: likewise, 64, of which 38 were
                used at most.
        """
        _prepare()
        where = torch.empty(0, device=device).device
        self._torch_device, self._device = where, wp.device_from_torch(str(where))
        self.solver_changed = model.opt.solver == mujoco.mjtSolver.mjSOL_PGS
        """True if Newton solves what PGS does in C."""
        if self.solver_changed:
            # MuJoCo Warp 4.0.0 raises of PGS. In C the two solvers are 6e-6 apart after 250 steps.
            model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        self._frame_skip, self._forces = frame_skip, "cfrc_ext" in reads
        with wp.ScopedDevice(self._device):
            self._model = mjw.put_model(model)
            self._data = mjw.make_data(model, count, nconmax=contacts, njmax=constraints)
        self._model.opt.warn_overflow = 0  # kernels would print; they are counted instead
        if self._device.is_cuda:
            # Conditional nodes need a driver of CUDA 12.4 (mujoco_warp #1317).
            self._model.opt.graph_conditional = wp.is_conditional_graph_supported()
        self.fields: Fields = {
            name: wp.to_torch(getattr(self._data, name)) for name in {*reads, *_STATE, "ctrl"}
        }
        """The fields that are read, each [N, *its shape], as they are now."""
        self._overflow = wp.to_torch(self._data.overflow)
        self._advance = self._launcher(self._steps)
        computed = bool(set(reads) - _PLAIN)
        self._forward = self._launcher(self._compute) if computed else None
        self._overflow.zero_()

    def step(self, ctrl: Tensor) -> Fields:
        """Step every world; ``ctrl`` is [N, nu], and the fields change with the next call."""
        self.fields["ctrl"].copy_(ctrl)
        self._advance()
        return self.fields

    def begin(self, rows: Tensor, qpos: Tensor, qvel: Tensor) -> Fields:
        """Begin the worlds of some rows anew.

        The others go on as if nothing had happened. But what was computed of them (positions of
        bodies, forces) may be computed once more: read it before.

        Args:
            rows: which, bool [N].
            qpos: of all rows, [N, nq].
            qvel: likewise, [N, nv].
        """
        for name, first in (("qpos", qpos), ("qvel", qvel)):
            self.fields[name].copy_(torch.where(rows[:, None], first, self.fields[name]))
        for name in {"qacc_warmstart", "ctrl", "cfrc_ext"} & self.fields.keys():
            field = self.fields[name]
            field.masked_fill_(rows.view(-1, *[1] * (field.dim() - 1)), 0.0)
        if self._forward is not None:
            self._forward()
        return self.fields

    def overflowed(self) -> Tensor:
        """Worlds that lost a contact or a constraint since the last call, bool [N]."""
        lost: Tensor = (self._overflow & int(_DROPPED)) != 0
        self._overflow.zero_()
        return lost

    def save(self) -> dict[str, Tensor]:
        """All that decides how each world goes on, copied."""
        return {name: self.fields[name].clone() for name in _STATE}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from what ``save`` gave."""
        for name in _STATE:
            self.fields[name].copy_(state[name])

    def _steps(self) -> None:
        for _ in range(self._frame_skip):
            mjw.step(self._model, self._data)
        if self._forces:
            mjw.rne_postconstraint(self._model, self._data)

    def _compute(self) -> None:
        mjw.forward(self._model, self._data)

    def _launcher(self, work: Callable[[], None]) -> Callable[[], None]:
        """What does the work again and again, in the order of torch's current stream."""
        device, is_cuda = self._device, self._device.is_cuda
        with wp.ScopedDevice(device):
            work()  # builds the kernels and loads them: neither can be done while capturing
            wp.synchronize_device(device)
            if is_cuda and not wp.is_mempool_enabled(device):  # RK4 allocates by wp.clone
                return lambda: self._in_order(work)
            with wp.ScopedCapture(device) as capture:
                work()
        graph = capture.graph
        if not is_cuda:
            return lambda: wp.capture_launch(graph)
        # Torch's default stream can't be captured, so physics alone is in the graph.
        return lambda: wp.capture_launch(graph, stream=wp.stream_from_torch(self._torch_device))

    def _in_order(self, work: Callable[[], None]) -> None:
        with wp.ScopedStream(wp.stream_from_torch(self._torch_device)):
            work()


@cache
def _prepare() -> None:
    """Begin with Warp: no banner, no line for each kernel, and their cache near this node.

    The elements of a Slurm array would else compile into one folder of a shared home directory.
    ``WARP_CACHE_PATH`` still says another place.
    """
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    if "SLURM_JOB_ID" in os.environ and "WARP_CACHE_PATH" not in os.environ:
        wp.config.kernel_cache_dir = wp.config.kernel_cache_dir or str(_own_folder())
    wp.init()


def _own_folder() -> Path:
    """A folder of this node that only this user can write to: what is in it will be executed."""
    folder = Path(tempfile.gettempdir()) / f"hpcpod-warp-{os.getuid()}"
    with contextlib.suppress(FileExistsError):  # whatever is there
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    _log.warning("%s belongs to another user: Warp's kernels are compiled anew", folder)
    return Path(tempfile.mkdtemp(prefix="hpcpod-warp-"))

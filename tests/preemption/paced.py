"""An environment that takes its time and notes when each of its steps was taken."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from tests.support.faulty_envs import Slow

_notes: dict[str, int] = {}


class Paced(Slow):
    """A slow CartPole. By its notes a test knows what was trained, whatever hpcpod says of it."""

    def __init__(self, notes: str, pause: float = 0.004, **more: Any) -> None:
        """Args:
        notes: the folder where each process notes its steps.
        pause: seconds that a step takes at least.
        more: what CartPole takes.
        """
        super().__init__(pause, **more)
        self._notes = notes

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while (Path(self._notes) / "stuck").exists():  # a simulator that hears nothing
            time.sleep(0.02)
        result = super().step(action)
        if "SLURM_JOB_ID" not in os.environ:  # a check of the configuration
            return result
        if self._notes not in _notes:  # by the first step: which of its lives this is says Slurm
            name = "-".join(("steps", *life(os.environ), str(os.getpid())))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            _notes[self._notes] = os.open(Path(self._notes) / name, flags)
        os.write(_notes[self._notes], struct.pack("d", time.time()))
        return result


def life(environment: Any) -> tuple[str, str]:
    """The slot that a process of Slurm is part of, and how often that was started again."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    slot = f"{array}_{task}" if array else environment["SLURM_JOB_ID"]
    return slot, environment.get("SLURM_RESTART_COUNT") or "0"


def steps_of(folder: Path, slot: str, restarts: int) -> list[float]:
    """When each step of one life of a slot was taken, by all its ranks: Unix times, sorted."""
    found: list[float] = []
    for path in folder.glob(f"steps-{slot}-{restarts}-*"):
        data = path.read_bytes()
        found += struct.unpack(f"{len(data) // 8}d", data[: len(data) // 8 * 8])
    return sorted(found)

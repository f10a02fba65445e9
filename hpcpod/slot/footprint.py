"""The footprint of a slot's processes: memory and CPU time, as the kernel counts them; GPU use."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_ASK_GPUS = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Footprint:
    """Memory and CPU time of processes."""

    peak_mib: float
    """Sum of the highest resident memory of each, in MiB. What they share counts for each, and
    their peaks may have come at different times: it is never less than what was needed."""
    cpu_seconds: float
    """CPU time of them and of what they have waited for."""


def measured(sessions: Collection[int]) -> Footprint:
    """The footprint of this process and of all in these sessions, by ``/proc``.

    A process that nobody has waited for yet and that is gone counts no more.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak, seconds = 0.0, ended.ru_utime + ended.ru_stime
    for own, kib, spent in _processes(sessions):
        peak += kib / 1024
        seconds += spent[0] if own else sum(spent)
    return Footprint(peak, seconds)


def _processes(sessions: Collection[int]) -> Iterator[tuple[bool, float, tuple[float, float]]]:
    """Each process: true if it is this one, its KiB, its CPU seconds and those of its children."""
    for folder in Path("/proc").glob("[0-9]*"):
        own = folder.name == str(os.getpid())
        try:
            # Behind the name, in which anything may stand: state, parent, group, session, ...
            words = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if not own and int(words[3]) not in sessions:
                continue
            found = _PEAK.search((folder / "status").read_bytes())
        except (OSError, IndexError, ValueError):  # it has just ended
            continue
        spent = (
            (int(words[11]) + int(words[12])) / _TICKS,
            (int(words[13]) + int(words[14])) / _TICKS,
        )
        yield own, float(found[1]) if found is not None else 0.0, spent


class GpuUse:
    """The use of the GPUs that this process may use, by nvidia-smi.

    A look reads the answer to the question of the look before, and asks anew: nobody waits for a
    driver. One that never answers is asked no more.
    """

    def __init__(self) -> None:
        self._asked: subprocess.Popen[str] | None = None

    def look(self) -> float | None:
        """The share of time, in [0, 1], in which kernels ran on the GPUs, as their mean, at the
        last look; None if it is unknown."""
        if self._asked is not None and self._asked.poll() is None:
            return None
        shares = self._answer()
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        with contextlib.suppress(OSError):  # there is no driver
            self._asked = subprocess.Popen(
                [*_ASK_GPUS, *(["-i", named] if named else [])],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        return sum(shares) / len(shares) if shares else None

    def close(self) -> None:
        """Ask no more."""
        if self._asked is not None:
            self._asked.kill()
            # A driver that hangs keeps it from ending, and would keep the slot from its requeue.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._asked.wait(1.0)
                self._answer()

    def _answer(self) -> list[float]:
        asked, self._asked = self._asked, None
        if asked is None or asked.stdout is None:
            return []
        with asked.stdout:
            return _shares(asked.stdout.read())


def _shares(said: str) -> list[float]:
    """Per cent by line; of a GPU that is split it says ``[N/A]``."""
    found = [line.strip() for line in said.splitlines()]
    return [min(100, int(each)) / 100 for each in found if each.isdecimal()]

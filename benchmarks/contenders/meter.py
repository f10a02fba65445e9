"""The meter of every contender's process, the same for all; standard library only."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WINDOW = 0.25
"""Seconds: rounds are put together until they have lasted this long; a rate is of one window."""
WARM_UP = 1.0
"""Seconds after the first update that count for nothing."""
FEWEST_WINDOWS = 3
EPISODES = 20
"""Training episodes whose mean return is held against the threshold."""


class Sample(NamedTuple):
    """Where a training is at one moment."""

    seconds: float
    env_steps: int
    updates: int


class CpuTimes(NamedTuple):
    """Seconds of processor time since some moment."""

    machine: float
    """Of all processes of this machine."""
    own: float
    """Of this process and the ones that it started (its process group)."""


@dataclass
class Meter:
    """Told after every round of updates, it says when enough was seen, and what."""

    seconds: float
    """How long to measure after the warm-up."""
    threshold: float | None = None
    """If given, measure until it is reached, or until ``limit``."""
    limit: float = 60.0
    """Seconds from ``begin`` after which a threshold is no longer waited for, and one window is
    enough: some need half a minute for a round."""

    def __post_init__(self) -> None:
        self._returns: deque[float] = deque(maxlen=EPISODES)
        self._samples: list[Sample] = []
        self._warm_from: float | None = None
        self._reached: float | None = None
        self.begin()

    def begin(self) -> None:
        """The training begins now: everything is imported and made."""
        self._began = time.perf_counter()
        self._cpu: CpuTimes | None = None
        self._cores: tuple[float, float, float] | None = None

    def episode(self, value: float) -> None:
        """A training episode has ended with this return."""
        self._returns.append(value)

    def tick(self, env_steps: int, updates: int, last: Iterable[float] | None = None) -> bool:
        """A round has ended; True when the training can stop.

        Args:
            env_steps: since ``begin``, over all environments.
            updates: gradient updates since ``begin``.
            last: returns of the last episodes, for who does not call ``episode``.
        """
        if last is not None:
            self._returns.clear()
            self._returns.extend(last)
        now = time.perf_counter() - self._began
        self._look_at_threshold(now)
        if updates > 0:
            self._record(Sample(now, env_steps, updates))
        waits = self.threshold is not None and self._reached is None and now <= self.limit
        fewest = FEWEST_WINDOWS if now <= self.limit else 1
        if waits or not self._measured(fewest):
            return False
        self._count_cores(now)
        return True

    def result(self) -> dict[str, float | None]:
        """Medians over the windows; None for what was not measured.

        ``env_steps_per_second``, ``updates_per_second``, ``seconds_to_threshold``,
        ``cores`` (used by this contender), ``other_cores`` (by the rest of the machine) and
        ``env_steps_per_cpu_second``, which a busy machine disturbs least.
        """
        rates = window_rates(self._samples)
        used, other, per_cpu_second = self._cores or (None, None, None)
        return {
            "env_steps_per_second": statistics.median(r[0] for r in rates) if rates else None,
            "updates_per_second": statistics.median(r[1] for r in rates) if rates else None,
            "seconds_to_threshold": self._reached,
            "cores": used,
            "other_cores": other,
            "env_steps_per_cpu_second": per_cpu_second,
            "windows": len(rates),
        }

    def _look_at_threshold(self, now: float) -> None:
        if self.threshold is None or self._reached is not None:
            return
        if len(self._returns) == EPISODES and statistics.fmean(self._returns) >= self.threshold:
            self._reached = now

    def _record(self, sample: Sample) -> None:
        if self._warm_from is None:
            self._warm_from = sample.seconds
        if sample.seconds < self._warm_from + WARM_UP:
            return
        if not self._samples:
            self._cpu = cpu_times()
        self._samples.append(sample)

    def _count_cores(self, now: float) -> None:
        """What was used since the warm-up, before the end of a training uses more."""
        if self._cpu is None or (after := cpu_times()) is None:
            return
        wall = now - self._samples[0].seconds
        if wall > 0:
            steps = self._samples[-1].env_steps - self._samples[0].env_steps
            own = after.own - self._cpu.own
            other = max(0.0, after.machine - self._cpu.machine - own)
            self._cores = own / wall, other / wall, steps / max(own, 0.01)

    def _measured(self, fewest: int) -> bool:
        if not self._samples or self._samples[-1].seconds - self._samples[0].seconds < self.seconds:
            return False
        return len(window_rates(self._samples)) >= fewest


def window_rates(samples: list[Sample], window: float = WINDOW) -> list[tuple[float, float]]:
    """Environment steps/s and updates/s of each window: whole rounds that last ``window`` s."""
    rates, start = [], None
    for sample in samples:
        if start is None:
            start = sample
        elif (spent := sample.seconds - start.seconds) >= window:
            steps, updates = sample.env_steps - start.env_steps, sample.updates - start.updates
            rates.append((steps / spent, updates / spent))
            start = sample
    return rates


def cpu_times() -> CpuTimes | None:
    """Processor time so far, from ``/proc``; None where there is none."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, soft, _steal = map(int, fields)
    own = sum(_group_ticks(Path(entry.path)) for entry in os.scandir("/proc") if _is_pid(entry))
    tick = os.sysconf("SC_CLK_TCK")
    return CpuTimes((user + nice + system + irq + soft) / tick, own / tick)


def _is_pid(entry: os.DirEntry[str]) -> bool:
    return entry.name.isdigit()


def _group_ticks(process: Path) -> int:
    """User and system time of a process of this group, with its children that have ended."""
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return 0
    # After the name, which may hold spaces: state, ppid, pgrp, ... utime is the 12th.
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) if int(fields[2]) == os.getpgrp() else 0

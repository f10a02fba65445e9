"""Slots as processes of this machine, as many at once as its cores and its GPUs allow.

Plain processes rather than submitit's local executor: that one has no limit on how many
run at once and reruns a job by a rule of its own, six times at most.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod._gpus import visible_gpus
from hpcpod._process import PYTHON, REQUEUE, ending
from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.records.records import Intent

log = logging.getLogger(__name__)

GRACE_SECONDS = 20.0
"""Seconds that a slot which was asked to end may take to checkpoint before it is killed."""


@dataclass
class _Process:
    popen: subprocess.Popen[bytes]
    token: str
    log: Path
    gpus: list[str]


class LocalLauncher:
    """Owns the processes that it started; they end when it does, whatever ends it."""

    def __init__(
        self, folder: Path, config: RunConfig, on_death: Callable[[str], object] = log.error
    ) -> None:
        """``on_death`` is called for each slot that ended with an error, with its log's end.

        Raises:
            LaunchError: a slot needs more GPUs than there are.
        """
        self._folder = folder
        self._config = config
        self._on_death = on_death
        self._processes: dict[str, _Process] = {}
        self._each = config.resources.gpus_per_pod
        # Each as often as pods share it, and all of them once before any of them twice.
        self._gpus = visible_gpus() * config.resources.pods_per_gpu if self._each else []
        if len(self._gpus) < self._each:
            raise LaunchError(
                f"resources.gpus_per_pod is {self._each}, but this machine has {len(self._gpus)}"
                " to offer (by CUDA_VISIBLE_DEVICES, else nvidia-smi): give pods fewer; with 0"
                " they train on the CPU"
            )

    @property
    def places(self) -> int:
        """Slots by the configuration, else as many as the cores allow; a slot has its own GPUs."""
        return places_of(self._config, len(self._gpus))[0]

    @property
    def most(self) -> int:
        """The most that a person may ask for: as many as fit here, or as the configuration says."""
        return places_of(self._config, len(self._gpus))[1]

    def submit(self, intent: Intent) -> str:
        """Start ``intent.count`` slots."""
        for index in range(intent.count):
            self._start(f"local-{intent.number}-{index}", intent.token)
        return intent.token

    def _start(self, slot: str, token: str) -> None:
        path = self._folder / "logs" / f"{slot}.log"
        path.parent.mkdir(exist_ok=True)
        free = list(self._gpus)
        # One that is asked to end keeps its GPUs: its successor, left without any, saw all of
        # them.
        for taken in (gpu for process in self._processes.values() for gpu in process.gpus):
            free.remove(taken)
        gpus = free[: self._each]
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        with path.open("ab") as output:
            popen = subprocess.Popen(
                [
                    *PYTHON, "-m", "hpcpod.slot", str(self._folder),
                    "--token", token, "--slot", slot, "--job", token,
                    "--parent", str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **devices},
                start_new_session=True,  # a Ctrl-C at the terminal is for the launcher alone
            )  # fmt: skip
        self._processes[slot] = _Process(popen, token, path, gpus)

    def observe(self, patience: float | None = None) -> ClusterView:
        """The slots that still run; there is no scheduler to wait for."""
        for slot, process in list(self._processes.items()):
            code = process.popen.poll()
            if code is None:
                continue
            del self._processes[slot]
            if code not in (0, REQUEUE):
                log = f"{process.log}:\n{tail(process.log)}"
                self._on_death(f"slot {slot} {ending(code)}; {log}")
        return ClusterView(
            tuple(
                JobView(slot, slot, "slots", "running", process.token, "", process.token)
                for slot, process in self._processes.items()
            ),
            room=max(0, self.most - len(self._processes)),
        )

    def cancel(self, jobs: Sequence[str]) -> None:
        """Ask these slots to end, wait for their checkpoints, then end them."""
        chosen = [self._processes[job] for job in jobs if job in self._processes]
        for process in chosen:
            process.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        for process in chosen:
            try:
                process.popen.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()

    def close(self) -> None:
        """End every slot."""
        self.cancel(list(self._processes))


def places_of(config: RunConfig, gpus: int) -> tuple[int, int]:
    """Slots wanted at once on this machine, and the most that a person may ask for.

    Args:
        config: of the run.
        gpus: GPUs of this machine, each counted as often as pods share it.
    """
    # cores that this process may use, of those of the machine
    fitting = max(1, len(os.sched_getaffinity(0)) // shape_of(config).cpus)
    limit = config.population.pods.max
    if config.resources.gpus_per_pod:
        limit = min(limit, gpus // config.resources.gpus_per_pod)
    places = min(config.cluster.slots or fitting, limit)
    return places, max(places, min(fitting, limit))


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of a log, for a message."""
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        return f"(its log can't be read: {error})"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])

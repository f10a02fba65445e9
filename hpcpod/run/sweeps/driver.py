"""The driver of a sweep: it runs cells, one after the other or some at once, as they are free.

A cell is run as ``hpcpod launch`` runs a run on this machine: by ``python -m hpcpod.orchestrator``,
with all the promises of a run. So a driver may be killed at any moment, and another goes on.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from hpcpod._gpus import visible_gpus
from hpcpod._process import PYTHON, REQUEUE, ending
from hpcpod.config.placement import shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import Corrupt, HpcpodError, LaunchError, StorageError
from hpcpod.launchers.local import tail
from hpcpod.run.sweeps.design import Cell
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.outcome import Outcome, outcome_of
from hpcpod.storage.os_errors import explained
from hpcpod.storage.requests import Drain
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

GLANCE_SECONDS = 0.5
"""Interval of looks at the stop flag; the end of a process is seen at once."""
ASK_SECONDS = 2.0
"""Interval of looks into the sweep's folder for what a person asks."""
ROUND_SECONDS = 5.0
"""Pause before cells are looked at again that other processes run, or that are paused."""
PATIENCE_SECONDS = 600.0
"""Time for which what the operating system refuses is tried again."""
MOST_FAILURES = 3
"""Times that the process of a cell may fail here before it is left alone."""

log = logging.getLogger("hpcpod.sweep")


@dataclass
class _Work:
    """A cell at work, whose claim is held as long."""

    cell: Cell
    process: subprocess.Popen[bytes]
    claim: ExitStack
    gpus: list[str]
    gone: int
    """File descriptor that can be read once the process has ended."""


class Driver:
    """Runs the cells of a sweep until none is left that it could run."""

    def __init__(
        self,
        sweep: Sweep,
        at_once: int,
        stop: Callable[[], bool],
        on_end: Callable[[Cell, Outcome], object] = lambda cell, outcome: None,
        on_look: Callable[[Sequence[Cell]], object] = lambda cells: None,
    ) -> None:
        """``at_once`` cells are run at a time, until ``stop`` is true; ``on_end`` is called with
        each that has ended, ``on_look`` twice a second with those at work.

        Raises:
            LaunchError: a cell needs more GPUs than there are.
        """
        self._sweep = sweep
        self._at_once = at_once
        self._stop = stop
        self._on_end, self._on_look = on_end, on_look
        self._work: list[_Work] = []
        self._failures: dict[str, int] = {}
        self._refused: dict[str, float] = {}
        """Time of each cell's first refusal in a row, by ``monotonic``; under "" the sweep's."""
        self._need = gpus_of(sweep.element, 1)  # an element has those of a cell
        self._gpus = visible_gpus() if self._need else []
        if len(self._gpus) < self._need:
            raise LaunchError(
                f"a cell needs {self._need} GPUs, but this machine has {len(self._gpus)} to offer"
            )
        self._next_look, self._next_ask = 0.0, 0.0
        self._asked_stop = False

    def run(self) -> int:
        """Run cells; return the exit code: 0 once all have ended or are paused, 1 if a process
        failed again and again, 75 if this one was stopped."""
        try:
            while True:
                self._reap()
                if self._stop() or self._asked():
                    break
                left = self._fill()
                if not self._work and not left:
                    return 1 if self._given_up() else 0
                self._on_look([work.cell for work in self._work])
                select.select([work.gone for work in self._work], [], [], GLANCE_SECONDS)
        finally:
            self._leave()
        # Asked by a person: a job that came back would only leave again.
        return 0 if self._asked_stop else REQUEUE

    def _asked(self) -> bool:
        """True once a person has asked it to stop, as of the last look."""
        if time.monotonic() >= self._next_ask:
            self._next_ask = time.monotonic() + ASK_SECONDS
            self._asked_stop = self._sweep.stopping
        return self._asked_stop

    def _given_up(self) -> bool:
        return any(count >= MOST_FAILURES for count in self._failures.values())

    def _fill(self) -> bool:
        """Begin cells while there is room; False if no cell is left to be run here or elsewhere."""
        if len(self._work) >= self._at_once or time.monotonic() < self._next_look:
            return True
        left = False
        try:
            kept, mine = self._sweep.kept(), {work.cell.name for work in self._work}
        except StorageError as error:
            if self._lasts("", error) and not self._work:
                raise
            self._next_look = time.monotonic() + ROUND_SECONDS
            return True
        self._refused.pop("", None)
        for cell in self._sweep.cells:
            if cell.name in kept or cell.name in mine:
                continue
            if self._failures.get(cell.name, 0) >= MOST_FAILURES:
                continue
            begun = self._begin(cell)
            left = left or begun is not False
            if len(self._work) >= self._at_once:
                return True
        self._next_look = time.monotonic() + ROUND_SECONDS
        return left

    def _begin(self, cell: Cell) -> bool | None:
        """Begin a cell if it is free; None if another process runs it, False if it is not to be
        run."""
        try:
            begun = self._try(cell)
        except HpcpodError as error:
            if not self._lasts(cell.name, error):
                return None
            self._failures[cell.name] = MOST_FAILURES
            log.error("cell %s can't be run: %s", cell.name, error)
            return False
        self._refused.pop(cell.name, None)
        return begun

    def _lasts(self, name: str, error: HpcpodError) -> bool:
        """True if an error does not pass: only what the operating system refuses does, and that
        for ``PATIENCE_SECONDS``."""
        now = time.monotonic()
        if not isinstance(error, StorageError) or isinstance(error, Corrupt):
            return True
        if name not in self._refused:
            log.warning("%s; trying again", error)
        return now - self._refused.setdefault(name, now) >= PATIENCE_SECONDS

    def _try(self, cell: Cell) -> bool | None:
        """``_begin``, with the errors of the cell's folder.

        Raises:
            StorageError: a file, or the process, is refused; nothing is begun.
            HpcpodError: it can't be run.
        """
        folder = RunFolder.open(self._sweep.folder(cell))
        if folder.requests.read(Drain) is not None:
            return False  # a person has paused it
        with ExitStack() as claim:
            if not claim.enter_context(self._sweep.claimed(cell)) or folder.locks.driven():
                return None
            if read_board(folder).phase == "finished":  # read under the claim: the last may be new
                # by a person, or its driver was killed before it kept the outcome
                self._end(cell, outcome_of(self._sweep.run(cell)))
                return True
            taken = [gpu for work in self._work for gpu in work.gpus]
            gpus = [gpu for gpu in self._gpus if gpu not in taken][: self._need]
            process, gone = self._start(cell, gpus)
            claim.callback(os.close, gone)
            self._work.append(_Work(cell, process, claim.pop_all(), gpus, gone))
        return True

    def _start(self, cell: Cell, gpus: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
        """Start the process of a cell; return it with a descriptor that tells of its end.

        Raises:
            StorageError: the operating system refuses; no process is left.
        """
        path = self._sweep.folder(cell)
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        with explained("start the process of", path):
            (path / "logs").mkdir(exist_ok=True)
            with (path / "logs" / "coordinator.log").open("ab") as output:
                process = subprocess.Popen(
                    [*PYTHON, "-m", "hpcpod.orchestrator", str(path), "--parent", str(os.getpid())],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env={**os.environ, **devices}, start_new_session=True,
                )  # fmt: skip
            try:
                return process, os.pidfd_open(process.pid)
            except OSError:
                process.terminate()
                process.wait()
                raise

    def _reap(self) -> None:
        """See to the cells whose process has ended."""
        for work in [each for each in self._work if each.process.poll() is not None]:
            self._work.remove(work)
            self._next_look = 0.0
            code, ended = work.process.returncode, False
            try:
                outcome = outcome_of(self._sweep.run(work.cell))
                ended = outcome.ended
                if ended:
                    self._end(work.cell, outcome)
            except HpcpodError as error:  # the next look says whether it lasts
                log.warning("cell %s: %s", work.cell.name, error)
            finally:
                work.claim.close()
            if not ended and code not in (0, REQUEUE):
                self._failed(work.cell, code)

    def _failed(self, cell: Cell, code: int) -> None:
        self._failures[cell.name] = count = self._failures.get(cell.name, 0) + 1
        path = self._sweep.folder(cell) / "logs" / "coordinator.log"
        left = "; it is left alone" if count == MOST_FAILURES else ""
        log.error("the process of cell %s %s%s; %s:\n%s", cell.name, ending(code), left, path,
                  tail(path, 5))  # fmt: skip

    def _end(self, cell: Cell, outcome: Outcome) -> None:
        """Keep the outcome of a cell, and tell of it.

        Raises:
            StorageError: it can't be kept: the next look at the cell tries again.
        """
        self._sweep.keep(cell, outcome)
        self._on_end(cell, outcome)

    def _leave(self) -> None:
        """Have every cell at work checkpoint and leave."""
        for work in self._work:
            work.process.terminate()
        for work in self._work:
            work.process.wait()  # it kills slots that do not leave
        self._reap()


def gpus_of(config: RunConfig, slots: int) -> int:
    """GPUs of a cell that has so many slots."""
    resources = config.resources
    return -(-slots // resources.pods_per_gpu) * resources.gpus_per_pod


def cells_at_once(config: RunConfig, slots: int, count: int) -> int:
    """Cells that are run at once on this machine.

    Args:
        config: of a cell: ``cluster.slots`` are those of all cells together.
        slots: that a cell has.
        count: of the cells.
    """
    cores = len(os.sched_getaffinity(0))
    fitting = max(1, cores // (shape_of(config).cpus * slots))
    wanted = fitting if config.cluster.slots is None else max(1, config.cluster.slots // slots)
    need = gpus_of(config, slots)
    limit = len(visible_gpus()) // need if need else count
    return max(1, min(wanted, limit, count))

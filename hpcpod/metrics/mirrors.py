"""Mirrors: the loggers of a training process, each fed by a thread of its own.

A logger that raises, hangs or can't be made costs its mirror and a warning, never a step: rows are
put into a queue, and are left out where it is full. The curves in the run folder have them all.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hpcpod import plugins
from hpcpod.errors import UnusablePlugin, UserError, in_words
from hpcpod.metrics.logger import Logged, Logger
from hpcpod.records.records import stable_hash
from hpcpod.storage.curves import Curve
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)

PACKAGES = ("tensorboard", "wandb", "trackio", "mlflow")
"""hpcpod's loggers, each called like the package and the extra that it needs."""

WAITING = 1000
"""Rows that wait for a logger, at most."""
CLOSE_SECONDS = 3.0
"""Seconds that a process waits at its end for all its loggers: its slot kills it after five."""

FOLDER = "mirrors"
"""Folder in the run folder, with one for each kind of logger."""

_Row = tuple[Logged, Mapping[str, float]]


def logged_of(folder: RunFolder, curve: Curve) -> Logged:
    """The pod of a curve, as loggers are told of it."""
    made = folder.config.get("folder"), folder.config.get("inode")  # the same in a copy
    key = f"{stable_hash(*map(str, made)):016x}-{curve.pod}"
    return Logged(
        folder.resolved.config.name, curve.pod, curve.algorithm, curve.hyperparameters,
        folder.path / FOLDER, key,
    )  # fmt: skip


def make_logger(name: str, logged: Logged) -> Logger:
    """Make a logger of a pod, which may keep files in a folder of its name in ``logged.folder``.

    Raises:
        UserError: there is no such logger, or it can't be made.
    """
    own = replace(logged, folder=logged.folder / name.replace(":", "."))
    try:
        made: Logger = plugins.make(Logger, "loggers", name, own)
    except UnusablePlugin as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name == name:
            said = f"{name} is not installed here: {sys.executable} -m pip install 'hpcpod[{name}]'"
            raise UserError(said) from error
        raise
    return made


class Mirrors:
    """All mirrors of a process. Rows of one pod come after those of another one."""

    def __init__(self, names: Sequence[str]) -> None:
        self._mirrors = [_Mirror(name) for name in names]

    def __bool__(self) -> bool:
        return bool(self._mirrors)

    def log(self, logged: Logged, row: Mapping[str, float]) -> None:
        """Have every logger get a row, soon."""
        for mirror in self._mirrors:
            mirror.put((logged, row))

    def close(self) -> None:
        """Let loggers write what they have, and wait for it for some seconds at most."""
        for mirror in self._mirrors:
            mirror.put(None)
        for mirror in self._mirrors:
            mirror.join(CLOSE_SECONDS / len(self._mirrors))
        self._mirrors = []


class _Mirror:
    """One logger and its thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: queue.Queue[_Row | None] = queue.Queue(WAITING)
        self._logger: Logger | None = None
        self._dropped = False
        # Daemon: a logger that hangs does not keep the process.
        self._thread = threading.Thread(target=self._work, name=f"metrics {name}", daemon=True)
        self._thread.start()

    def put(self, row: _Row | None) -> None:
        if self._dropped:
            return
        try:
            self._rows.put_nowait(row)
        except queue.Full:
            self._drop(f"it has not taken a row while {WAITING} came")

    def join(self, seconds: float) -> None:
        if not self._dropped:
            self._thread.join(seconds)

    def _drop(self, why: str) -> None:
        if self._dropped:
            return
        self._dropped = True
        log.warning(
            "metrics: %s gets no more rows from this process: %s; the run folder's curves have"
            " them, and `hpcpod sync` can send them later", self._name, why,
        )  # fmt: skip

    def _import(self) -> None:
        """Import the logger before a round begins, if that comes later: it takes the interpreter
        from training for seconds. What can't be imported is refused where it is made."""
        with contextlib.suppress(Exception):
            plugins.resolve("loggers", self._name)
            if self._name in PACKAGES:
                importlib.import_module(self._name)

    def _work(self) -> None:
        self._import()
        self._try(self._serve)
        if self._logger is not None:  # it may have rows to write, also where it raised
            self._try(self._logger.close)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except UserError as error:
            self._drop(str(error))
        except (Exception, SystemExit) as error:  # a user's class may raise whatever it likes
            self._drop(in_words(error))

    def _serve(self) -> None:
        of: str | None = None
        while not self._dropped and (row := self._rows.get()) is not None:
            logged, numbers = row
            if logged.pod != of:
                before, self._logger = self._logger, None
                if before is not None:
                    before.close()
                self._logger, of = make_logger(self._name, logged), logged.pod
            assert self._logger is not None
            self._logger.log(numbers, int(numbers["env_steps"]))

"""Wait for the chunks of an evaluation, and keep processes at work on them."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from hpcpod._process import PYTHON, THREAD_VARIABLES, ending
from hpcpod.deploy.score_folder import Chunk, ScoreFolder, Work
from hpcpod.errors import HpcpodError, UserError
from hpcpod.launchers.local import tail

log = logging.getLogger(__name__)

TRIES = 2
"""Times that a chunk is played, if the process that plays it dies."""
FRUITLESS = 3
"""Starts of processes in a row after which not one more score has come."""

Tell = Callable[[str], None]


class Pool(Protocol):
    """Processes that play chunks."""

    poll: float
    """Seconds between two looks at what is scored."""

    def living(self) -> set[str] | None:
        """The names of those that play, or wait to; None if that can't be asked now."""
        ...

    def start(self, count: int) -> None:
        """Start so many more.

        Raises:
            LaunchError: the scheduler refuses.
        """
        ...

    def started(self, owner: str) -> bool:
        """True if this pool has started a process; False of an earlier one's."""
        ...

    def last_words(self, owner: str) -> str:
        """The end of a process in words that go behind its name; of an empty name, of any."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...  # fmt: skip


class Waiting:
    """The wait for one evaluation's scores."""

    def __init__(
        self, folder: ScoreFolder, work: Work, pool: Pool, named: Callable[[Chunk], str]
    ) -> None:
        """``named`` says of a chunk that it can't be scored, for a message."""
        self._folder, self._work, self._pool, self._named = folder, work, pool, named
        self._deaths: Counter[str] = Counter()
        self._fruitless, self._scored = 0, -1
        self._seen: set[str] = set()

    def wait(self, wanted: int, tell: Tell) -> None:
        """Have every chunk scored.

        Args:
            wanted: processes at once, at most.
            tell: called again and again with how far it is.

        Raises:
            UserError: a chunk can't be played.
            HpcpodError: processes die, or come to nothing.
        """
        total = sum(len(chunk.seeds) for chunk in self._work.chunks)
        with self._pool:
            while missing := self._open():
                played = total - sum(len(chunk.seeds) for chunk in missing)
                tell(f"{played} of {total} episodes are played")
                if refused := self._folder.refusal(self._work):
                    chunk, why = refused
                    raise UserError(f"{self._named(chunk)}: {why}")
                living = self._pool.living()
                if living is not None:
                    self._take_back(missing, living)
                    self._start(min(wanted, len(missing)) - len(living), len(missing))
                    self._seen |= living
                time.sleep(self._pool.poll)

    def _open(self) -> list[Chunk]:
        scored = self._folder.scored()
        return [chunk for chunk in self._work.chunks if chunk.name not in scored]

    def _take_back(self, missing: list[Chunk], living: set[str]) -> None:
        """Free the chunks of processes that are gone."""
        if self._seen and living >= self._seen:  # nobody is gone
            return
        scored = self._folder.scored()  # what they had done before they went
        claims = self._folder.claims(self._work, [c for c in missing if c.name not in scored])
        for chunk, owner in claims:
            if owner in living:
                continue
            if self._pool.started(owner):
                self._deaths[chunk.name] += 1
            if self._deaths[chunk.name] >= TRIES:
                words = self._pool.last_words(owner)
                raise HpcpodError(
                    f"{self._named(chunk)}: {TRIES} processes have died of it, on seeds"
                    f" {chunk.seeds[0]} to {chunk.seeds[-1]}; the last one {words}"
                )
            self._folder.free(self._work, chunk)
        self._seen &= living

    def _start(self, count: int, missing: int) -> None:
        if count <= 0:
            return
        self._fruitless = 0 if missing != self._scored else self._fruitless + 1
        self._scored = missing
        if self._fruitless >= FRUITLESS:
            raise HpcpodError(
                f"nothing was scored by the last {FRUITLESS} starts of processes; one"
                f" {self._pool.last_words('')}"
            )
        self._pool.start(count)
        self._seen |= self._pool.living() or set()


class LocalPool:
    """Processes of this machine, which end with this one, whatever ends it."""

    poll = 0.05

    def __init__(self, folder: ScoreFolder) -> None:
        """They may be started before it is known what they are to play."""
        self._folder = folder
        self._work: Work | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, int] = {}
        self._started = 0

    def begin(self, work: Work) -> None:
        """Give them their work: those that are there, and those that are started from now on."""
        self._work = work
        for process in self._processes.values():
            self._tell(process)

    def _tell(self, process: subprocess.Popen[bytes]) -> None:
        if self._work is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has died: that is seen later
                process.stdin.write(f"{self._work.name}\n".encode())
                process.stdin.close()
            process.stdin = None

    def living(self) -> set[str]:
        """See ``Pool``."""
        for name, process in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                self._ended[name] = code
                del self._processes[name]
        return set(self._processes)

    def start(self, count: int) -> None:
        """See ``Pool``."""
        alone = dict.fromkeys(THREAD_VARIABLES, "1")
        for _ in range(count):
            name = f"local-{os.getpid()}-{self._started}"
            self._started += 1
            with self._log(name).open("ab") as output:
                self._processes[name] = subprocess.Popen(
                    [
                        *PYTHON, "-m", "hpcpod.deploy.scorer", str(self._folder.path),
                        "--name", name, "--parent", str(os.getpid()),
                    ],
                    stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                    env={**os.environ, **alone},
                    start_new_session=True,  # a Ctrl-C at the terminal is for this process alone
                )  # fmt: skip
            self._tell(self._processes[name])

    def started(self, owner: str) -> bool:
        """See ``Pool``."""
        return owner in self._processes or owner in self._ended

    def last_words(self, owner: str) -> str:
        """See ``Pool``; of an empty name, of the last one that failed."""
        failed = [name for name, code in self._ended.items() if code != 0]
        owner = owner or (failed or [""])[-1]
        if owner not in self._ended:
            return "ended without an error"
        said = tail(self._log(owner))  # the folder may be gone by the time that this is read
        return ending(self._ended[owner]) + (f"; it had said:\n{said}" if said else "")

    def _log(self, name: str) -> Path:
        return self._folder.path / "logs" / f"{name}.log"

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)  # with what a simulator has started; scores stand whole
        for name, process in self._processes.items():
            if process.stdin is not None:
                process.stdin.close()
            self._ended[name] = process.wait()
        self._processes.clear()

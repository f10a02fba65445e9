"""Following a program through one task: its progress, its saves, its report, and its end."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from hpcpod._process import ending, killed
from hpcpod.config.program import ProgramConfig
from hpcpod.config.schema import RunConfig
from hpcpod.pod.ipc.messages import FailureKind
from hpcpod.pod.watch import ProgramFailed, Stopped, Watch
from hpcpod.program.answers import MOST_STEPS
from hpcpod.program.files import Lines, Unreadable
from hpcpod.program.guard import KILL_SECONDS
from hpcpod.program.session_folder import Session

log = logging.getLogger(__name__)

GRACE = {"local": 15.0}
"""Seconds that a slot leaves its process to stop, by its launcher; see ``slot.Pace``."""
GRACE_ELSEWHERE = 60.0

QUICK_SECONDS, PAUSE, LONG_PAUSE = 2.0, 0.003, 0.02
"""For so long after a task's begin, or its last sign of life, looks are ``PAUSE`` apart."""

SIGNAL_SECONDS = 3.0
"""Seconds in which a stop is awaited whose signal has reached the program first."""

_POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""Signals that a scheduler sends to all of a job's processes at once, the program's too."""

_MEMORY = ("memoryerror", "out of memory", "can't allocate memory", "oom-kill")


def _nothing(*given: Any) -> None:
    """Do nothing."""


class Follower:
    """Follows one task of a program."""

    def __init__(self, session: Session, config: RunConfig, watch: Watch) -> None:
        self._session, self._watch = session, watch
        assert config.program is not None
        self._program: ProgramConfig = config.program
        self._hang = config.pod.hang_seconds
        grace = GRACE.get(config.cluster.launcher, GRACE_ELSEWHERE) - KILL_SECONDS - 2.0
        self._patience = min(self._program.stop_seconds, grace)
        self._lines = Lines(session.path("progress.jsonl"))
        self._begun = time.monotonic()
        self._read_at: float | None = None
        """Time at which the program said that it has read its task."""
        self._first_at: float | None = None
        self.told_at: float | None = None
        """Time of the last progress or save, by the monotonic clock; what comes after it
        evaluates."""
        self._asked_at: float | None = None
        self.steps = 0
        """Steps of this task, as told last."""
        self.on_progress: Callable[[int, Mapping[str, float]], None] = _nothing
        self.on_save: Callable[[int], None] = _nothing

    @property
    def asked(self) -> bool:
        """True if the program was asked to stop."""
        return self._asked_at is not None

    @property
    def missed(self) -> bool:
        """True if a process that was kept has ended before any sign of this task."""
        silent = self._read_at is None and self.told_at is None
        return silent and self._session.number > 0 and not self._session.alive

    @property
    def trained(self) -> float:
        """Seconds that the program has trained, without its start and its evaluation.

        They begin when it has read its task, or else, if it does not say so, with its first
        progress, and end with the last. Of one progress alone the start is unknown: they begin with
        the task.
        """
        end = time.monotonic() if self.told_at is None else self.told_at
        begin = self._begun
        if self._read_at is not None:
            begin = self._read_at
        elif self._first_at is not None and self._first_at < end:
            begin = self._first_at
        return max(0.0, end - begin)

    def until_report(self) -> dict[str, Any] | None:
        """Follow until the program reports.

        Returns:
            The report; None if it was asked to stop, and has ended without one.

        Raises:
            Stopped: the task counts for nothing any more.
            ProgramFailed: it ended, hung, or wrote what can't be read.
        """
        while True:
            ended = not self._session.alive  # asked before its last words are read
            self._look()
            report = self._report()
            if report is not None:
                return report
            if ended:
                self._see_end()
                return None
            self._obey()
            self._watch_silence()
            recent = time.monotonic() - max(self._begun, self._session.heard)
            self._session.listen(PAUSE if recent < QUICK_SECONDS else LONG_PAUSE)

    def _look(self) -> None:
        """Take what the program has said of its progress, and what it has saved."""
        if self._read_at is None and self._session.path("begun").exists():
            self._read_at = time.monotonic()
        for row in self._lines.new():
            self._tell()
            told = row.get("steps", 0.0)
            self.steps = max(self.steps, int(told) if told < MOST_STEPS else 0)
            self.on_progress(self.steps, row)
        for mark, steps in self._session.saves():
            self._tell()
            self.steps = max(self.steps, steps)
            self.on_save(steps)
            mark.unlink(missing_ok=True)  # the program waits for this before it writes on
            self._session.heard = time.monotonic()
        if not self._session.folder.is_dir():
            said = "the program has removed the session's folder"
            raise ProgramFailed(self._with_log(said), "raised")

    def _tell(self) -> None:
        self._session.heard = self.told_at = time.monotonic()
        self._first_at = self._first_at or self.told_at

    def _report(self) -> dict[str, Any] | None:
        try:
            return self._session.report()
        except Unreadable as error:
            raise ProgramFailed(f"the program's report {error}", "raised") from error

    def _obey(self) -> None:
        """Ask the program to stop once this process has to; end it if it does not."""
        if self._asked_at is None and self._watch.should_stop():
            self._asked_at = time.monotonic()
            self._session.stop()
        if self._asked_at is None:
            return
        if self._watch.discarded():
            raise Stopped
        if time.monotonic() - self._asked_at > self._patience:
            log.warning(
                "the program went on for %g s after it was asked to stop: ended", self._patience
            )
            self._session.close(kindly=True)
            raise Stopped

    def _watch_silence(self) -> None:
        if self._hang is not None and time.monotonic() - self._session.heard > self._hang:
            said = f"the program gave no sign of life for {self._hang:g} s (pod.hang_seconds)"
            raise ProgramFailed(self._with_log(f"{said}: killed"), "crash")

    def _see_end(self) -> None:
        """See that a program which has ended without a report was asked to stop."""
        assert self._session.process is not None
        code = self._session.process.ending
        words = " ".join(self._program.command)
        if self.asked:
            return
        if isinstance(code, str):
            raise ProgramFailed(
                f"program.command: {words[:80]!r} can't be started: {code}", "raised"
            )
        assert code is not None
        if -code in _POLITE and self._stop_follows():
            return
        if code == 0:
            said = "the program ended with exit code 0, but without a report"
            raise ProgramFailed(self._with_log(said), "raised")
        lines = self._session.words()
        memory = killed(code) or any(word in lines.lower() for word in _MEMORY)
        kind: FailureKind = "memory" if memory else "crash" if code < 0 or code > 128 else "raised"
        raise ProgramFailed(self._with_log(f"the program {ending(code)}"), kind)

    def _stop_follows(self) -> bool:
        """True if the signal that ended the program is one that stops this process, too."""
        end = time.monotonic() + SIGNAL_SECONDS
        while time.monotonic() < end:
            if self._watch.should_stop():
                return True
            time.sleep(0.02)
        return False

    def _with_log(self, said: str) -> str:
        lines = self._session.words()
        return f"{said}; its last lines: {lines}" if lines else f"{said}, and printed nothing"

"""Commands with a time limit: a question to a scheduler, or to a filesystem, may hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """The end of a command, and its output."""

    code: int | None
    """Its exit code; None if it could not be started, or did not end in time."""
    out: str
    err: str
    """Its standard error, or why there is no exit code, in one clause."""

    @property
    def ok(self) -> bool:
        """It ended, with exit code 0."""
        return self.code == 0


def ask(words: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> Answer:
    """Run a command for at most this long; nothing that it does is raised.

    Args:
        words: the command. What it starts in turn is ended with it.
        seconds: how long it may take.
        env: its environment, if not this process's.
    """
    name = Path(words[0]).name
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", env=env, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        return Answer(None, "", f"there is no {name} here")
    except OSError as error:
        return Answer(None, "", f"{name} can't be run: {error.strerror}")
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return Answer(None, "", f"{name} did not answer within {seconds:g} s")
    except BaseException:
        end(process)
        raise
    return Answer(process.returncode, out, err)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its group.

    It is not waited for in earnest: one that hangs in a dead filesystem can't be killed.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)

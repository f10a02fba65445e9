"""The tree of errors that hpcpod raises on purpose, and whose fault each is.

::

    HpcpodError
    ├── UserError                 what was asked for can't be done as written: exit code 2
    │   ├── ConfigError           a configuration file or an override
    │   ├── UnusablePlugin        what answers to a plugin's name will not do
    │   │   └── UnknownPlugin     nothing answers to a plugin's name
    │   ├── UnusableWrapper       a gymnasium wrapper that can't be put around its environment
    │   ├── UnsupportedSpace      an algorithm on a space that it can't act in
    │   ├── RunExists             the run's folder is there already
    │   ├── RunNotFound           there is no run there
    │   ├── EndlessEpisode        an episode of a panel does not come to an end
    │   └── LaunchError           the scheduler refused; its own words are shown
    ├── StorageError              the shared filesystem did not do what it promised
    │   └── Corrupt               a file's checksum does not match: quarantined, never trusted
    ├── ImpossibleBirth           a generator's proposal that can't be carried out
    ├── Interrupted               a run is waited for, and no process goes on with it
    ├── Superseded                the run was extended: a process with its old limits ends
    ├── EngineDiffers             a simulator here is not the one that computes the run's scores
    ├── EnvFailed                 a process that steps environments raised an error, or is gone
    └── Diverged                  an agent's numbers stopped being finite: its pod is dead
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path


class HpcpodError(Exception):
    """The root: ``except HpcpodError`` catches whatever hpcpod raises on purpose."""


class UserError(HpcpodError):
    """The user's mistake: one clear sentence, exit code 2, never a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython asks an exception for this name
        """The lines that IPython, and so a notebook, shows of it."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(UserError):
    """A configuration with problems: all of them at once, each with its path and a remedy."""

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source = source
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{source} has {count}", *(f"  {p}" for p in problems)]))


class UnusablePlugin(UserError):
    """A plugin that can't be called, that raises, or that gives something else than is needed."""


class UnknownPlugin(UnusablePlugin):
    """A plugin name that nothing answers to; the message lists the names that are known."""


class UnusableWrapper(UserError):
    """A gymnasium wrapper that can't be put around its environment."""


class UnsupportedSpace(UserError):
    """An algorithm was given an action or observation space that it can't work with."""


class RunExists(UserError):
    """A run of this name exists already."""


class RunNotFound(UserError):
    """No run folder is at the path given."""


class EndlessEpisode(UserError):
    """An episode of an evaluation has passed ``env.longest_episode`` steps without an end."""


class LaunchError(UserError):
    """The scheduler refused a job; the message carries the scheduler's own words."""


class StorageError(HpcpodError):
    """The shared filesystem refused an operation or broke a promise."""


class Corrupt(StorageError):
    """A file's content does not match its checksum."""


class ImpossibleBirth(HpcpodError, ValueError):
    """A pod that a generator proposes can't be made: the proposal is refused."""


class Interrupted(HpcpodError):
    """No process goes on with a run that has not finished."""


class Superseded(HpcpodError):
    """The run was extended, and this process works by the limits of before."""


class EngineDiffers(HpcpodError):
    """The engine here is not the one that computes this run's scores, or another version of it."""


class EnvFailed(HpcpodError):
    """A process that steps environments raised an error of the environment's, or is gone."""


class Diverged(HpcpodError):
    """A loss, an observation or a reward is not finite; the pod that met it is dead."""


def in_words(error: BaseException) -> str:
    """An exception of another library in one line, its type first."""
    try:
        text = str(error)
    except Exception as another:  # a user's own: as an updater's it ended every merge
        text = f"its own words can't be told: {type(another).__name__}"
    return " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")


def sentence_of(error: BaseException) -> str:
    """The words of one of hpcpod's own errors; any other in one line, its type first."""
    return str(error) if isinstance(error, HpcpodError) else in_words(error)


def raised_at(error: BaseException) -> str:
    """The line of a user's own code that an exception came through last, in brackets; empty if it
    came through none."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return first_own((frame.filename, frame.lineno or 0) for frame in frames)


def first_own(frames: Iterable[tuple[str, int]]) -> str:
    """The first frame of a user's own code, as ``raised_at`` has it; each is a file and a line."""
    ours = str(Path(__file__).parent)
    for path, line in frames:
        # "<": such as <frozen importlib._bootstrap>; two prefixes, for a venv has its own.
        if not path.startswith((ours, sys.base_prefix, sys.prefix, "<")):
            return f" (line {line} of {Path(path).name})"
    return ""


def out_of_memory(error: BaseException) -> bool:
    """True if an exception says that memory ran out: Python's own, torch's, or CUDA's."""
    said = in_words(error).lower()
    return any(word in said for word in ("memoryerror", "out of memory", "can't allocate memory"))


def exit_code(work: Callable[[], int], say: Callable[[str], object]) -> int:
    """Run a command's work; an error raised on purpose becomes one message and an exit code.

    Returns:
        What ``work`` returns; 2 for the user's mistake, 1 for anything else of ours, and for a full
        disk, whichever error tells of it.
    """
    try:
        return work()
    except HpcpodError as error:
        say(str(error))
        return 2 if isinstance(error, UserError) and not _of_full_disk(error) else 1


def _of_full_disk(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False

"""Rounds of a function that reports as it goes: Optuna's objective, Ray Tune's trainable.

Such a function is called once, and reports many times. A report that fills the round's budget
(``round.env_steps`` counts reports here) ends it; the process is kept, and the function goes on in
place where the next task is its own. Elsewhere, or for another pod, it is called anew.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import yaml

from hpcpod.program.session import FOLDER, Session, SessionError, sessions
from hpcpod.records.evaluations import SCORE_EPISODES, SCORE_ERROR

STATE = "hpcpod-rounds.json"
"""In a save: how many reports the function has made, the last of them, whose they are, and at how
many of them the function has saved its own files."""
RESERVED = frozenset(
    {"steps", "returns", "score", "error", "episodes", SCORE_ERROR, SCORE_EPISODES}
)
MOST_CHOICES = 100
"""Values into which a range with a step is taken apart."""
Fold = Callable[["Rounds"], float | None]

recording = False
"""True while ``python -m hpcpod.compat`` asks a script for its search space."""


class Elsewhere(BaseException):
    """Leaves a function whose process has another task next, or none."""


class Rounds:
    """The tasks of this process, one after another, for the function that plays them."""

    def __init__(self) -> None:
        self._sessions = sessions()
        self.pod: Session | None = next(self._sessions)
        self.begin()

    def begin(self) -> None:
        """Read how far the pod's function was."""
        checkpoint = self.task.checkpoint
        path = checkpoint / STATE if checkpoint else None
        self._state: dict[str, Any] = (
            json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
        )
        self._token = uuid.uuid4().hex
        self.told = 0
        self.behind: int = self._state.get("told", 0)
        self._in_round = 0
        self._last: dict[str, Any] | None = None
        self._saved_at: int | None = None
        # Another's results are none of this pod's, though it begins with their checkpoint.
        self._own = self._state.get("of") == self._whose()

    @property
    def task(self) -> Session:
        """The task in hand."""
        if self.pod is None:
            raise SessionError("the process has no task any more")
        return self.pod

    @property
    def done(self) -> bool:
        """True if the pod's function has returned in an earlier round."""
        return self._own and bool(self._state.get("done"))

    def resumed(self) -> Path | None:
        """The folder that the function has saved last, or its parent has; None if neither has. It
        goes on from there, and what it has reported since then is not reported again."""
        folder = self.task.checkpoint
        if folder is None or not _files(folder):
            return None
        self.told = max(self.told, self._files_at)
        self._own = True  # what its files have reported is the function's own now
        return folder

    def tell(
        self, score: float, error: float | None, metrics: Mapping[str, Any], *, saved: bool = False
    ) -> None:
        """Take one report.

        Args:
            score: The value that ranks.
            error: Its standard error; None if unknown.
            metrics: What else is known.
            saved: ``save_to`` has all that the function needs to go on from here.

        Raises:
            Elsewhere: the round is over, and the next task is not this function's.
        """
        self.told += 1
        if saved:
            self._saved_at = self.told
        numbers = finite(metrics)
        self._last = {"score": score, "error": error, **numbers}
        if self.told <= self.behind:
            return
        self._in_round += 1
        self.task.progress(steps=self._in_round, score=score, **numbers)
        if not self.task.train_steps_left or self.task.should_stop:
            self._end(self._in_round, self._last, done=False)
        elif saved:
            self._write_state(self._last, done=False)
            self.task.saved()

    def finish(self, score: float | None) -> None:
        """Take the function's return: a value that it has not told yet is its last report."""
        last = self._last or (self._state.get("last") if self._own else None)
        if score is not None and (last is None or last["score"] != score):
            last = {"score": score, "error": None}
        if last is None:
            raise SessionError("the function returned without a report")
        self._end(max(1, self._in_round), last, done=True)

    def repeat(self) -> None:
        """Report once more what a function said that has returned."""
        self.told = self.behind
        self._end(0, self._state["last"], done=True)

    def _end(self, steps: int, last: Mapping[str, Any], *, done: bool) -> None:
        before = self.task
        self._write_state(last, done=done)
        before.report(steps=steps, **last)
        self.pod = next(self._sessions, None)
        if done or self.pod is None or not self._goes_on(before, self.pod):
            raise Elsewhere
        self._in_round, self._saved_at = 0, None

    def _write_state(self, last: Mapping[str, Any], *, done: bool) -> None:
        """Complete a save; the files of the last one go with it where there are no new ones."""
        folder, saved_at = self.task.save_to, self._saved_at
        if saved_at is None and self.task.checkpoint is not None:
            saved_at = self._files_at
            for path in _files(self.task.checkpoint):
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, folder / path.name)
        self._state = {
            "token": self._token, "of": self._whose(), "told": self.told, "files_at": saved_at or 0,
            "last": dict(last), "done": done,
        }  # fmt: skip
        (folder / STATE).write_text(json.dumps(self._state), encoding="utf-8")

    @property
    def _files_at(self) -> int:
        """Number of reports that the function had made when it saved its checkpoint's files."""
        return int(self._state.get("files_at", self._state.get("told", 0)))

    def _whose(self) -> dict[str, Any]:
        return {"pod": self.task.pod, "hyperparameters": self.task.hyperparameters}

    def _goes_on(self, before: Session, after: Session) -> bool:
        """True if a task is the next round of what this very call has trained."""
        state = after.checkpoint / STATE if after.checkpoint else None
        if state is None or not state.is_file() or before.hyperparameters != after.hyperparameters:
            return False
        read = json.loads(state.read_text(encoding="utf-8"))
        return bool(read["token"] == self._token and read["told"] == self.told)


def _files(folder: Path) -> list[Path]:
    """The files that a function itself has saved in a folder."""
    return [path for path in folder.iterdir() if path.name != STATE]


def play(function: Fold) -> NoReturn:
    """Have a function play every task of this process, which ends then."""
    rounds = Rounds()
    while rounds.pod is not None:
        rounds.begin()
        try:
            if rounds.done:
                rounds.repeat()
            else:
                rounds.finish(function(rounds))
        except Elsewhere:
            continue
    sys.exit(0)


def in_run() -> bool:
    """True in a process that a run has started."""
    return FOLDER in os.environ


def finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among metrics, under names that a report has no other use for."""
    numbers = {}
    for name, value in metrics.items():
        if name in RESERVED or isinstance(value, (str, bytes)):
            continue
        with suppress(TypeError, ValueError, RuntimeError, OverflowError):  # no number
            if math.isfinite(number := float(value)):  # numpy's and torch's, too
                numbers[name] = number
    return numbers


def stepped(low: float, high: float, step: float) -> dict[str, list[Any]]:
    """The choice of every ``step`` from ``low`` to ``high``.

    Raises:
        SessionError: there are more than a hundred.
    """
    count = math.floor((high - low) / step + 1e-9) + 1
    if not 2 <= count <= MOST_CHOICES:
        raise SessionError(
            f"{count} values from {low} to {high} by {step}: 2 to {MOST_CHOICES} can be a choice"
        )
    return {"choice": [min(high, low + place * step) for place in range(count)]}


def doubling(low: int, high: int) -> dict[str, list[int]]:
    """The choice of whole numbers from ``low``, each twice the one before, and ``high``."""
    values = []
    while low < high:
        values.append(low)
        low *= 2
    return {"choice": [*values, high]}


def print_section(script: str, direction: str, search: Mapping[str, Any]) -> NoReturn:
    """Print the configuration's ``program`` of a script, and end."""
    program = {"command": ["python", script], "direction": direction, "search": dict(search)}
    print(yaml.safe_dump({"program": program}, sort_keys=False, default_flow_style=None), end="")  # noqa: T201
    sys.exit(0)

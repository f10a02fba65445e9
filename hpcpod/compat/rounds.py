"""Rounds of a function that reports as it goes: Optuna's objective, Ray Tune's trainable.

Such a function is called once, and reports many times. A report that fills the round's budget
(``round.env_steps`` counts reports here) ends it; the process is kept, and the function goes on in
place where the next task is its own. Elsewhere, or for another pod, it is called anew.
"""

from __future__ import annotations

import json
import math
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import yaml

from hpcpod.program.session import FOLDER, Session, SessionError, sessions

STATE = "hpcpod-rounds.json"
"""In a save: how many reports the function has made, and the last of them."""
RESERVED = frozenset({"steps", "returns", "score", "error", "episodes"})
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

    @property
    def task(self) -> Session:
        """The task in hand."""
        if self.pod is None:
            raise SessionError("the process has no task any more")
        return self.pod

    @property
    def done(self) -> bool:
        """True if the pod's function has returned in an earlier round."""
        return bool(self._state.get("done"))

    def resumed(self) -> None:
        """Note that the function goes on from its checkpoint: it does not report again what it
        had."""
        self.told, self.behind = max(self.told, self.behind), 0

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
        if self.told <= self.behind:
            return
        self._in_round += 1
        numbers = finite(metrics)
        self._last: dict[str, Any] = {"score": score, "error": error, **numbers}
        self.task.progress(steps=self._in_round, score=score, **numbers)
        if not self.task.train_steps_left or self.task.should_stop:
            self._end(self._in_round, self._last, done=False)
        elif saved:
            self._write_state(self._last, done=False)
            self.task.saved()

    def finish(self, score: float | None) -> None:
        """Take the function's return: a value that it has not told yet is its last report."""
        last = self._last if self._in_round else self._state.get("last")
        if score is not None and (last is None or last["score"] != score):
            last = {"score": score, "error": None}
        if last is None:
            raise SessionError("the function returned without a report")
        self._end(max(1, self._in_round), last, done=True)

    def repeat(self) -> None:
        """Report once more what a function said that has returned."""
        self._end(0, self._state["last"], done=True)

    def _end(self, steps: int, last: Mapping[str, Any], *, done: bool) -> None:
        before = self.task
        self._write_state(last, done=done)
        before.report(steps=steps, **last)
        self.pod = next(self._sessions, None)
        if done or self.pod is None or not self._goes_on(before, self.pod):
            raise Elsewhere
        self._in_round = 0

    def _write_state(self, last: Mapping[str, Any], *, done: bool) -> None:
        state = {"token": self._token, "told": self.told, "last": dict(last), "done": done}
        (self.task.save_to / STATE).write_text(json.dumps(state), encoding="utf-8")

    def _goes_on(self, before: Session, after: Session) -> bool:
        """True if a task is the next round of what this very call has trained."""
        state = after.checkpoint / STATE if after.checkpoint else None
        if state is None or not state.is_file() or before.hyperparameters != after.hyperparameters:
            return False
        read = json.loads(state.read_text(encoding="utf-8"))
        return bool(read["token"] == self._token and read["told"] == self.told)


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
        if name not in RESERVED and isinstance(value, (int, float)) and math.isfinite(value):
            numbers[name] = float(value)
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
    return {"choice": [low + place * step for place in range(count)]}


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

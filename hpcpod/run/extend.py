"""Extension of a finished run: larger limits, checked and published."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from types import NoneType
from typing import Any

from hpcpod.config.decoder import encode, value_at
from hpcpod.config.loader import assign
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import StopConfig
from hpcpod.errors import ConfigError, UserError
from hpcpod.records.records import Board, Extension
from hpcpod.run.snapshot import see
from hpcpod.storage.freshness import refresh_run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, now_of, read_board
from hpcpod.tournament.reopening import reopened
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.stopping import limit_met

ENDS = ("target", "env_steps", "minutes", "rounds")
"""Fields of ``stop`` that end a run; null is no such end, and so more than any number."""
SOURCE = "the extension"
ENDING_SECONDS = 90.0  # on_finish may take 60
"""The longest that the process that ran a run here is waited for while it ends."""


def limits_of(words: Sequence[str]) -> dict[str, Any]:
    """The fields of ``stop`` that ``stop.a=b`` strings name, with their values as written.

    Raises:
        ConfigError: a string is none, or names another field.
    """
    data: dict[str, Any] = {}
    problems = [problem for each in words for problem in assign(data, each)]
    stop = data.pop("stop", {})
    if not isinstance(stop, dict):
        problems.append("stop: name its field, such as stop.env_steps")
        stop = {}
    slots = isinstance(data.get("cluster"), dict) and "slots" in data["cluster"]
    advice = "; `hpcpod scale` changes slots" if slots else ""
    if data:
        problems.append(f"{next(iter(data))}: only limits (stop.*) can be extended{advice}")
    if problems:
        raise ConfigError(SOURCE, problems)
    return stop


def extend(folder: RunFolder, limits: Mapping[str, Any]) -> Extension:
    """Give a finished run larger limits, so that it can be gone on with; nothing is started.

    Args:
        folder: the run's.
        limits: fields of ``stop`` with their new values, as a configuration has them.

    Raises:
        UserError: it has not finished, it failed, it is another user's, a limit is no larger, or
            the run would end again at once.
        ConfigError: a field is unknown, or has a value that it can't have.
    """
    folder.owner.require_mine()
    refresh_run(folder)  # an NFS client shows for a minute what was
    folder.extensions.look()
    board, resolved = read_board(folder), folder.resolved
    _require_finished(folder, board)
    before = resolved.config.stop
    after = _checked(before, limits)
    changed = _changed(before, after)
    extension = Extension(
        len(board.endings) + 1,
        max(now_of(folder, board), board.stopped or 0.0),
        {name: getattr(after, name) for name in changed},
        {name: getattr(before, name) for name in changed},
    )
    _require_goes_on(folder, board, resolved, extension)
    if not folder.extensions.publish(extension):
        raise UserError(f"{resolved.config.name} was extended by another process just now")
    merge(folder, Rules.of_run(folder))
    return extension


def _require_finished(folder: RunFolder, board: Board) -> None:
    name = folder.resolved.config.name
    if board.phase != "finished":
        raise UserError(
            f"{name} has not finished, it is {see(folder, board).state}, and only a finished run is"
            " extended; `hpcpod stop` ends it"
        )
    if board.stop_reason == "failed":
        raise UserError(f"{name} has failed, and no larger limit helps: {board.failure}")
    end = time.monotonic() + ENDING_SECONDS
    while folder.resolved.config.cluster.launcher == "local" and folder.locks.driven():
        if time.monotonic() > end:
            raise UserError(f"another process runs {name} still; see `hpcpod status`")
        time.sleep(0.1)  # s


def _checked(before: StopConfig, limits: Mapping[str, Any]) -> StopConfig:
    """The limits after an extension.

    Raises:
        ConfigError: says every problem.
    """
    problems: list[str] = []
    after: Any = value_at("stop", StopConfig, {**encode(before), **limits}, problems)
    if not problems:
        problems = [*_not_larger(before, after)]
    if problems:
        raise ConfigError(SOURCE, problems)
    checked: StopConfig = after
    return checked


def _changed(before: StopConfig, after: StopConfig) -> list[str]:
    names = [field.name for field in fields(StopConfig)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _not_larger(before: StopConfig, after: StopConfig) -> Iterator[str]:
    for name in _changed(before, after):
        old, new = _value(before, name), _value(after, name)
        if name == "alpha":
            yield "stop.alpha: the error level of a test can't be changed once it has begun"
        elif not all(isinstance(value, (int, float, NoneType)) for value in (old, new)):
            yield f"stop.{name}: only numbers can be extended"
        elif old is None:
            yield f"stop.{name}: it has no such limit, so that {new:g} would be a smaller one"
        elif new is not None and new < old:
            yield f"stop.{name}: must be at least {old:.15g}, as before, got {new:.15g}"
    if all(getattr(after, name) is None for name in ENDS):
        yield f"stop: nothing would end the run; keep one of {', '.join(ENDS)}"


def _value(stop: StopConfig, name: str) -> Any:
    """A limit's value; where null stands for a number, that number."""
    return stop.select_episodes if name == "final_episodes" else getattr(stop, name)


def _require_goes_on(
    folder: RunFolder, board: Board, resolved: Resolved, extension: Extension
) -> None:
    """See that the run would not end again at once, and has what it needs to go on.

    Raises:
        UserError: it would, or has not.
    """
    name = resolved.config.name
    if board.stop_reason == "target" and "target" not in extension.limits:
        target = resolved.config.stop.target
        raise UserError(
            f"{name} has reached its target of {target:g}: set stop.target higher, or null"
        )
    config = resolved.extended(extension.limits).config
    after = reopened(board, config, extension)
    limit = limit_met(after, config, extension.time)
    if limit is not None:
        value = getattr(config.stop, limit)
        raise UserError(
            f"{name} would end again at once by stop.{limit}, which is {value:.15g}: set it higher"
        )
    births = [pod.birth for pod in after.living if pod.birth is not None]
    starts = [birth.checkpoint for birth in births]
    if not any(start is None or folder.checkpoints.holds(start) for start in starts):
        raise UserError(f"{name} can't go on: the checkpoints of all its pods are gone")
